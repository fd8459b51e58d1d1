"""Context binaries and models as other builds of ctxgen would have written them (docs/format.md)."""

import ctypes
import re

import onnx


class Hash128(ctypes.Structure):
    _fields_ = (("low", ctypes.c_uint64), ("high", ctypes.c_uint64))


def made_for(binary, key, value):
    """The binary as if it had been made for another `key` of its fingerprint, with a header that is right (docs/format.md).
    Gives what is there now: `value` in the length of what was there."""
    data = bytearray(binary.read_bytes())
    header_size = int.from_bytes(data[12:16], "little")
    source_size, fingerprint_size = (int.from_bytes(data[at : at + 4], "little") for at in (80, 84))
    fingerprint_end = 92 + source_size + fingerprint_size
    begin = data.index(key.encode() + b"=", 92 + source_size, fingerprint_end) + len(key) + 1
    end = data.find(b";", begin, fingerprint_end)
    end = fingerprint_end if end < 0 else end
    value = value.ljust(end - begin, "_")[: end - begin]
    data[begin:end] = value.encode()
    data[16:32] = bytes(16)
    xxh3 = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
    xxh3.argtypes, xxh3.restype = (ctypes.c_char_p, ctypes.c_size_t), Hash128
    checksum = xxh3(bytes(data[:header_size]), header_size)
    data[16:32] = checksum.high.to_bytes(8, "little") + checksum.low.to_bytes(8, "little")
    binary.write_bytes(data)
    return value


def metadata_made_for(model, key, value):
    """The context model, whose metadata says so too."""
    proto = onnx.load(model, load_external_data=False)
    for entry in proto.metadata_props:
        if entry.key.startswith("ep_compatibility_info."):
            entry.value = re.sub(rf"\b{key}=[^;]*", f"{key}={value}", entry.value)
    onnx.save(proto, model)
