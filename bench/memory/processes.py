"""What the kernel says of a process's memory."""

import pathlib
import re


def status_bytes(pid, key):
    """A field of /proc/PID/status, or 0 when the process is gone."""
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


def mapped_pages(pid, ending):
    """(resident bytes, proportional bytes, how many mappings) of the mapped files with this ending, of /proc/PID/smaps."""
    sums, count, here = {"Rss": 0, "Pss": 0}, 0, False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            here = line.endswith(ending)
            count += here
        elif here and line.split(":")[0] in sums:
            sums[line.split(":")[0]] += int(line.split()[1]) * 1024
    return sums["Rss"], sums["Pss"], count


def megabytes(count):
    return f"{count / 1e6:,.0f} MB"
