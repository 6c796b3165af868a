#!/usr/bin/env python3
"""Writes small_llama.gguf: a Llama of one layer and 20 tokens whose weights, F32 and Q8_0, follow from a counter."""
import pathlib
import struct

import numpy as np

HIDDEN, WIDE, HEADS, KEY_HEADS, SIZE, TOKENS = 32, 64, 4, 2, 8, 20
UINT32, FLOAT32, STRING = 4, 6, 8
F32, Q8_0 = 0, 8


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def entry(key, kind, value):
    data = {UINT32: lambda: struct.pack("<I", value), FLOAT32: lambda: struct.pack("<f", value), STRING: lambda: text(value)}
    return text(key) + struct.pack("<I", kind) + data[kind]()


def matrix(rows, columns, seed):
    codes = (np.arange(rows * columns, dtype=np.int64) * 7919 + seed * 104729) % 255 - 127
    blocks = codes.astype(np.int8).reshape(-1, 32)
    scale = np.float16(0.004).tobytes()
    return Q8_0, (rows, columns), b"".join(scale + block.tobytes() for block in blocks)


def norm():
    return F32, (HIDDEN,), np.ones(HIDDEN, np.float32).tobytes()


def main():
    entries = [
        entry("general.architecture", STRING, "llama"),
        entry("llama.block_count", UINT32, 1),
        entry("llama.context_length", UINT32, 64),
        entry("llama.embedding_length", UINT32, HIDDEN),
        entry("llama.feed_forward_length", UINT32, WIDE),
        entry("llama.attention.head_count", UINT32, HEADS),
        entry("llama.attention.head_count_kv", UINT32, KEY_HEADS),
        entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
    ]
    tensors = {
        "token_embd.weight": matrix(TOKENS, HIDDEN, 1),
        "output_norm.weight": norm(),
        "blk.0.attn_norm.weight": norm(),
        "blk.0.attn_q.weight": matrix(HEADS * SIZE, HIDDEN, 2),
        "blk.0.attn_k.weight": matrix(KEY_HEADS * SIZE, HIDDEN, 3),
        "blk.0.attn_v.weight": matrix(KEY_HEADS * SIZE, HIDDEN, 4),
        "blk.0.attn_output.weight": matrix(HIDDEN, HEADS * SIZE, 5),
        "blk.0.ffn_norm.weight": norm(),
        "blk.0.ffn_gate.weight": matrix(WIDE, HIDDEN, 6),
        "blk.0.ffn_up.weight": matrix(WIDE, HIDDEN, 7),
        "blk.0.ffn_down.weight": matrix(HIDDEN, WIDE, 8),
    }
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries)
    data = b""
    for name, (kind, shape, values) in tensors.items():
        dimensions = b"".join(struct.pack("<Q", size) for size in reversed(shape))
        header += text(name) + struct.pack("<I", len(shape)) + dimensions + struct.pack("<IQ", kind, len(data))
        data += values + bytes(-len(values) % 32)
    header += bytes(-len(header) % 32)
    (pathlib.Path(__file__).parent / "small_llama.gguf").write_bytes(header + data)


if __name__ == "__main__":
    main()
