#!/usr/bin/env python3
"""Writes the test vectors of docs/formats/piece.md and segment.md, made from those pages and not
from our C++ code.

Vectors are append-only: a file that exists with other contents is an error. Needs libxxhash.so.0.
Usage: make.py [folder tests/vectors]
"""

import ctypes
import hashlib
import pathlib
import struct
import sys

XXH = ctypes.CDLL("libxxhash.so.0")
XXH.XXH3_64bits.restype = ctypes.c_uint64
XXH.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
CHUNK = 1 << 20


def sha(data):
    return hashlib.sha256(data).digest()


def pattern(n):
    return bytes((i * 131 + (i >> 8)) & 0xFF for i in range(n))


def owner(*parts):
    return sha(b"".join(struct.pack("<Q", len(p)) + p for p in parts))


def extend(prefix, tokens):
    return sha(prefix + struct.pack("<I%di" % len(tokens), len(tokens), *tokens))


OWNER = owner(b"default", b"me", b"default", b"chat-1")
FINGERPRINT = sha(b"model-a")
START = sha(b"tenuto-chain-1" + OWNER + FINGERPRINT)
BEGIN = extend(START, [1, 2, 3, 4, 5])
END = extend(BEGIN, [6, 7, 8, 49151])


class Piece:
    """A header as a list of fields; `payload` is what its sizes and checksums are made from."""

    def __init__(self, size=10, **change):
        payload = pattern(size)
        chunks = [payload[i : i + CHUNK] for i in range(0, len(payload), CHUNK)]
        sums = [XXH.XXH3_64bits(c, len(c)) for c in chunks]
        self.f = dict(
            magic=b"TNTPIECE",
            version=1,
            header_bytes=1024,
            kind=1,
            scope=1,
            codec=1,
            begin=5,
            end=9,
            payload_bytes=size,
            chunk_bytes=CHUNK,
            created=1700000000123,
            reserved=bytes(8),
            owner=OWNER,
            fingerprint=FINGERPRINT,
            prefix_begin=BEGIN,
            prefix_end=END,
            sums=(sums + [0] * 8)[:8],
            aead=0,
            reserved2=bytes(14),
            salt=bytes(32),
            commitment=bytes(32),
            tags=bytes(128),
            reserved3=bytes(544),
        )
        self.f.update(change)

    def bytes(self):
        f = self.f
        names = "version header_bytes kind scope codec begin end payload_bytes chunk_bytes created"
        out = f["magic"] + struct.pack("<HHBBHiiIIq", *(f[n] for n in names.split()))
        out += f["reserved"] + f["owner"] + f["fingerprint"] + f["prefix_begin"] + f["prefix_end"]
        out += struct.pack("<8Q", *f["sums"]) + struct.pack("<H", f["aead"]) + f["reserved2"]
        out += f["salt"] + f["commitment"] + f["tags"] + f["reserved3"]
        assert len(out) == 992
        return out + sha(out)


def flip(data, at, mask=1):
    return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]


def reserved(n, at):
    return flip(bytes(n), at)


def piece_vectors():
    """Yields (name, note, expect, extra lines, header bytes, payload): the payload as the length
    of the pattern, or as (length, flipped byte)."""

    def ok(name, note, n, **change):
        f = Piece(n, **change).f
        numbers = ("kind", "codec", "begin", "end", "payload_bytes", "created")
        digests = ("owner", "fingerprint", "prefix_begin", "prefix_end")
        lines = ["fields: " + " ".join(str(f[k]) for k in numbers)]
        lines += ["%s: %s" % (k, f[k].hex()) for k in digests]
        return name, note, "ok", lines, Piece(n, **change).bytes(), n

    def bad(name, note, expect="corrupt", n=10, **change):
        return name, note, expect, [], Piece(n, **change).bytes(), n

    good = Piece().bytes()
    yield ok("delta_small", "the worked example of piece.md", 10)
    yield ok("one_byte", "the smallest payload", 1)
    yield ok("chunk_exact", "exactly one chunk", CHUNK)
    yield ok("chunk_and_one", "a second chunk of one byte", CHUNK + 1)
    yield ok("payload_max", "eight full chunks", 8 * CHUNK)
    yield ok("checkpoint", "a merged run", 100, kind=2, begin=0, end=2147483647, prefix_begin=START)
    yield ok("codec_llama", "another codec", 100, codec=2)
    yield ok("codec_unknown", "a later codec: valid, but no reader expects it", 100, codec=65535)
    yield ok("created_negative", "a clock before 1970", 100, created=-1)

    yield ("empty", "no byte at all", "corrupt", [], b"", 0)
    yield ("short_by_one", "1023 bytes", "corrupt", [], good[:-1], 0)
    yield ("magic", "wrong magic", "corrupt", [], Piece(magic=b"TNTPIECF").bytes(), 10)
    yield bad("version_0", "a version that never was", "invalid", version=0)
    yield bad("version_2", "a later version", "invalid", version=2)
    yield (
        "version_2_other_layout",
        "a later version whose checksum lies elsewhere",
        "invalid",
        [],
        flip(Piece(version=2).bytes(), 1023),
        10,
    )
    yield ("checksum_first", "first byte of the checksum", "corrupt", [], flip(good, 992), 10)
    yield ("checksum_last", "last byte of the checksum", "corrupt", [], flip(good, 1023, 128), 10)
    yield (
        "owner_flipped",
        "an owner changed without the checksum",
        "corrupt",
        [],
        flip(good, 48),
        10,
    )
    yield bad("header_bytes", "another header size", header_bytes=1025)
    yield bad("chunk_bytes", "another chunk size", chunk_bytes=CHUNK // 2)
    yield bad("kind_0", "no kind", kind=0)
    yield bad("kind_state", "state pieces are not of version 1", kind=3)
    yield bad("kind_255", "unknown kind", kind=255)
    yield bad("scope_0", "no scope", scope=0)
    yield bad("scope_tenant", "tenant scope is not of version 1", scope=2)
    yield bad("codec_0", "no codec", codec=0)
    yield bad("range_empty", "begin = end", begin=9)
    yield bad("range_backwards", "begin > end", begin=10)
    yield bad("range_negative", "begin < 0", begin=-1)
    yield bad("range_both_negative", "end < 0", begin=-2, end=-1)
    yield bad("payload_0", "no payload", payload_bytes=0)
    yield bad("payload_max_and_one", "payload over the limit", payload_bytes=8 * CHUNK + 1)
    yield bad("payload_u32_max", "payload of 4 GiB", payload_bytes=0xFFFFFFFF)
    yield bad(
        "chunk_sum_extra",
        "a checksum of a chunk that is not there",
        sums=[Piece().f["sums"][0], 1] + [0] * 6,
    )
    yield bad("reserved_1", "reserved byte 40", reserved=reserved(8, 0))
    yield bad("aead", "sealed: not of version 1", aead=1)
    yield bad("reserved_2", "reserved byte 255", reserved2=reserved(14, 13))
    yield bad("salt", "a salt without sealing", salt=reserved(32, 31))
    yield bad("key_commitment", "a commitment without sealing", commitment=reserved(32, 0))
    yield bad("tag_last", "the last tag without sealing", tags=reserved(128, 127))
    yield bad("reserved_3_first", "reserved byte 448", reserved3=reserved(544, 0))
    yield bad("reserved_3_last", "reserved byte 991", reserved3=reserved(544, 543))
    yield ("payload_short", "one byte of the payload is missing", "corrupt", [], good, 9)
    yield ("payload_long", "one byte too many", "corrupt", [], good, 11)
    yield ("payload_flipped", "a bit of the payload", "corrupt", [], good, (10, 3))
    yield (
        "payload_flipped_second_chunk",
        "the last byte of two chunks",
        "corrupt",
        [],
        Piece(CHUNK + 1).bytes(),
        (CHUNK + 1, CHUNK),
    )


def segment(
    file_id=0xA3B4C5D6E7F80912,
    magic=b"TNTSEGMT",
    version=1,
    reserved1=0,
    align=4096,
    reserved2=bytes(24),
):
    out = magic + struct.pack("<HHIQ", version, reserved1, align, file_id) + reserved2
    assert len(out) == 48
    return out + sha(out)[:16]


def segment_vectors():
    good = segment()
    yield "plain", "the worked example of segment.md", "ok", good
    yield "longer", "what follows the header does not matter to it", "ok", good + b"\xff" * 8
    yield "empty", "no byte at all", "corrupt", b""
    yield "short_by_one", "63 bytes", "corrupt", good[:-1]
    yield "magic", "wrong magic", "corrupt", segment(magic=b"TNTSEGMX")
    yield "version_0", "a version that never was", "invalid", segment(version=0)
    yield "version_2", "a later version", "invalid", segment(version=2)
    yield "other_file", "the header of another file", "corrupt", segment(file_id=0xA3B4C5D6E7F80913)
    yield "align", "another alignment", "corrupt", segment(align=512)
    yield "reserved_1", "reserved bytes 10 and 11", "corrupt", segment(reserved1=256)
    yield "reserved_2", "reserved byte 47", "corrupt", segment(reserved2=reserved(24, 23))
    yield "checksum", "last byte of the checksum", "corrupt", flip(good, 63)


def write(path, lines, data):
    rows = [data[i : i + 32].hex() for i in range(0, len(data), 32)]
    text = "\n".join(lines + ["bytes:"] + rows) + "\n"
    if path.exists() and path.read_text() != text:
        sys.exit("%s exists with other contents: vectors are never edited" % path)
    path.write_text(text)


def main():
    default = pathlib.Path(__file__).resolve().parent.parent
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    for kind in ("piece", "segment"):
        (root / kind / "v1").mkdir(parents=True, exist_ok=True)
    for name, note, expect, extra, data, payload in piece_vectors():
        size, flipped = payload if isinstance(payload, tuple) else (payload, None)
        lines = ["note: " + note, "expect: " + expect, "payload_pattern: %d" % size]
        if flipped is not None:
            lines.append("payload_flip: %d" % flipped)
        write(root / "piece" / "v1" / (name + ".txt"), lines + extra, data)
    for name, note, expect, data in segment_vectors():
        lines = ["note: " + note, "expect: " + expect, "file: a3b4c5d6e7f80912"]
        write(root / "segment" / "v1" / (name + ".txt"), lines, data)
    for name, digest in (("owner", OWNER), ("start", START), ("begin", BEGIN), ("end", END)):
        print(name, digest.hex())


if __name__ == "__main__":
    main()
