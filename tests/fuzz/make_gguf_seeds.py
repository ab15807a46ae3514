#!/usr/bin/env python3
"""Writes small GGUF files, whole and wrong in one place each, as seeds for fuzz_gguf_check.

Usage: make_gguf_seeds.py OUT
"""

import pathlib
import struct
import sys

UINT8, INT32, UINT32, FLOAT32, BOOL, STRING, ARRAY, UINT64 = 0, 5, 4, 6, 7, 8, 9, 10
F32, Q4_0, Q8_0 = 0, 2, 8


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def scalar(kind, value):
    return struct.pack({UINT8: "<B", INT32: "<i", UINT32: "<I", FLOAT32: "<f", BOOL: "<?",
                        UINT64: "<Q"}[kind], value)


def entry(key, kind, value):
    packed = text(value) if kind == STRING else scalar(kind, value)
    return text(key) + struct.pack("<I", kind) + packed


def array(key, kind, values):
    packed = b"".join(text(v) if kind == STRING else scalar(kind, v) for v in values)
    return text(key) + struct.pack("<IIQ", ARRAY, kind, len(values)) + packed


def tensor(name, sizes, kind, offset):
    dims = struct.pack("<I", len(sizes)) + b"".join(struct.pack("<Q", size) for size in sizes)
    return text(name) + dims + struct.pack("<IQ", kind, offset)


ENTRIES = [
    entry("general.architecture", STRING, "llama"),
    entry("general.alignment", UINT32, 32),
    entry("llama.block_count", UINT32, 1),
    entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
    entry("tokenizer.ggml.add_bos_token", BOOL, True),
    entry("general.size", UINT64, 1 << 40),
    array("tokenizer.ggml.tokens", STRING, ["", "", "a", "b", "ab"]),
    array("tokenizer.ggml.token_type", INT32, [3, 3, 1, 1, 1]),
    array("general.tags", STRING, []),
]
TENSORS = [
    tensor("token_embd.weight", [32, 5], Q8_0, 0),
    tensor("blk.0.attn_q.weight", [32, 2, 1, 1], Q4_0, 192),
    tensor("output_norm.weight", [32], F32, 256),
]
DATA_BYTES = 256 + 32 * 4


def model(entries=ENTRIES, tensors=TENSORS, version=3, align=32, data_bytes=DATA_BYTES):
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries))
    head += b"".join(entries) + b"".join(tensors)
    return head + bytes(-len(head) % align) + bytes(data_bytes)


def seeds():
    whole = model()
    same = array("tokenizer.ggml.tokens", STRING, ["a", "b", "a"])
    epsilon = entry("x.norm_epsilon", FLOAT32, float("nan"))
    return {
        "whole": whole,
        "version_2": model(version=2),
        "big_endian": b"GGUF" + struct.pack(">I", 3) + whole[8:],
        "empty": model([], [], data_bytes=0),
        "no_tensors": model(tensors=[], data_bytes=0),
        "aligned_64": model([entry("general.alignment", UINT32, 64), *ENTRIES[2:]], align=64),
        "aligned_3": model([entry("general.alignment", UINT32, 3)]),
        "cut_header": whole[:300],
        "cut_data": whole[:-1],
        "same_tokens": model([same]),
        "not_a_number": model([epsilon]),
        "nested_array": model([text("x") + struct.pack("<IIQ", ARRAY, ARRAY, 1)]),
        "huge_array": model([text("x") + struct.pack("<IIQ", ARRAY, UINT64, 1 << 61)]),
        "no_dims": model(tensors=[tensor("t", [], F32, 0)]),
        "huge_dims": model(tensors=[tensor("t", [1 << 31, 1 << 31, 4], F32, 0)]),
        "half_block": model(tensors=[tensor("t", [31], Q8_0, 0)]),
        "far_away": model(tensors=[tensor("t", [32], F32, (1 << 64) - 32)]),
        "text": b"This is a letter, not a model.\n",
    }


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, data in seeds().items():
        (out / name).write_bytes(data)


if __name__ == "__main__":
    main()
