"""Context binaries and models as other builds of ctxgen would have written them (docs/format.md)."""

import ctypes
import re
import struct

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


def xxh3_128(data):
    function = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
    function.argtypes, function.restype = (ctypes.c_char_p, ctypes.c_size_t), Hash128
    found = function(bytes(data), len(data))
    return found.high.to_bytes(8, "little") + found.low.to_bytes(8, "little")


def varint(value):
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def fields_of(message):
    """[number, wire type, value] of each field of a protobuf message; all but varints are bytes."""
    fields, at = [], 0
    while at < len(message):
        tag, at = read_varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = read_varint(message, at)
        else:
            size, at = (8, at) if kind == 1 else (4, at) if kind == 5 else read_varint(message, at)
            value, at = message[at : at + size], at + size
        fields.append([number, kind, value])
    return fields


def message_of(fields):
    encoded = bytearray()
    for number, kind, value in fields:
        encoded += varint(number << 3 | kind)
        encoded += varint(value) if kind == 0 else value if kind in (1, 5) else varint(len(value)) + value
    return bytes(encoded)


def forge_certificates(binary, change):
    """Writes change(fields) of each program's certificate (None: leaves it out) into a binary, with checksums that are right (docs/format.md)."""
    programs_field, certificate_field, page = 1, 14, 4096
    data = binary.read_bytes()
    (header_size,) = struct.unpack_from("<I", data, 12)
    manifest_at, manifest_size = struct.unpack_from("<QQ", data, 40)
    (data_at,) = struct.unpack_from("<Q", data, 72)
    manifest = fields_of(data[manifest_at : manifest_at + manifest_size])
    for program in (field for field in manifest if field[0] == programs_field):
        inner = []
        for number, kind, value in fields_of(program[2]):
            forged = change(fields_of(value)) if number == certificate_field else value
            if forged is not None:
                inner.append([number, kind, message_of(forged) if number == certificate_field else value])
        program[2] = message_of(inner)
    manifest = message_of(manifest)
    new_data_at = -(-(manifest_at + len(manifest)) // page) * page
    forged = bytearray((data[:manifest_at] + manifest).ljust(new_data_at, b"\0") + data[data_at:])
    struct.pack_into("<QQQ", forged, 32, len(forged), manifest_at, len(manifest))
    struct.pack_into("<Q", forged, 72, new_data_at)
    forged[56:72] = xxh3_128(manifest)
    forged[16:32] = bytes(16)
    forged[16:32] = xxh3_128(forged[:header_size])
    binary.write_bytes(forged)


def metadata_made_for(model, key, value):
    """The context model, whose metadata says so too."""
    proto = onnx.load(model, load_external_data=False)
    for entry in proto.metadata_props:
        if entry.key.startswith("ep_compatibility_info."):
            entry.value = re.sub(rf"\b{key}=[^;]*", f"{key}={value}", entry.value)
    onnx.save(proto, model)
