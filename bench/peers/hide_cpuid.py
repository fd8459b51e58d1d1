"""Copies of peers' libraries that ask liblimit_cpuid.so what the processor can, for processors that cannot hide it (AMD's).

In a copy each CPUID instruction (0F A2) is an interrupt of that number (CD A2), which a program may not call: Linux sends SIGSEGV,
and the handler of peers/limit_cpuid.cpp answers.
"""

import os
import pathlib
import re
import subprocess

import fetch_ort

CPUID, INTERRUPT = b"\x0f\xa2", b"\xcd\xa2"
SEGMENT = re.compile(r"^\s*LOAD\s+0x(\w+)\s+0x(\w+)\s+0x\w+\s+0x(\w+)", re.MULTILINE)
INSTRUCTION = re.compile(r"^\s*(\w+):\s+cpuid\b", re.MULTILINE)


def output_of(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def offsets(library):
    """Where the file has CPUID instructions."""
    segments = [[int(number, 16) for number in found] for found in SEGMENT.findall(output_of("readelf", "--segments", "--wide", library))]
    for found in INSTRUCTION.findall(output_of("objdump", "--disassemble", "--no-show-raw-insn", library)):
        address = int(found, 16)
        yield next(address - start + offset for offset, start, size in segments if start <= address < start + size)


def copy_of(library):
    """The copy's path, in the cache. Raises OSError, CalledProcessError if the library cannot be read or has no such instruction."""
    library = pathlib.Path(library).resolve()
    state = library.stat()
    copy = fetch_ort.cache_folder() / "without_cpuid" / f"{library.parent.name}-{state.st_size}-{state.st_mtime_ns}" / library.name
    if copy.exists():
        return copy
    content, found = bytearray(library.read_bytes()), list(offsets(library))
    if not found or any(content[at : at + 2] != CPUID for at in found):
        raise OSError(f"{library}: its CPUID instructions are not found")
    for at in found:
        content[at : at + 2] = INTERRUPT
    copy.parent.mkdir(parents=True, exist_ok=True)
    written = copy.with_suffix(f".{os.getpid()}")
    written.write_bytes(content)
    written.rename(copy)
    return copy
