#!/usr/bin/env python3
"""Asks ggml's own library what the block formats of GGUF files decode to, and writes what the tests compare with:

    make_block_vectors.py LIBGGML_BASE [--blocks COUNT]

    blocks.gguf      two random blocks of every format and, as NAME.values, the float32 they stand for; the metadata
                     has, as digest.NAME, the CRC-32 of the values of many more blocks (NaN as 0x7fc00000)
    ../../../src/detent/checkpoints/gguf/grid_points.inc    the points of the grids of the IQ formats

LIBGGML_BASE is a libggml-base.so, as the npm package @node-llama-cpp/linux-x64 has one. The bytes of block tensors
come from splitmix64, of a counter that starts at the format's number times 2^32.
"""

import argparse
import ctypes
import struct
import zlib
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
DIGEST_BLOCKS = 512

# Number, name, elements, bytes.
FORMATS = [
    (2, "Q4_0", 32, 18), (3, "Q4_1", 32, 20), (6, "Q5_0", 32, 22), (7, "Q5_1", 32, 24), (8, "Q8_0", 32, 34),
    (10, "Q2_K", 256, 84), (11, "Q3_K", 256, 110), (12, "Q4_K", 256, 144), (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210), (15, "Q8_K", 256, 292), (16, "IQ2_XXS", 256, 66), (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98), (19, "IQ1_S", 256, 50), (20, "IQ4_NL", 32, 18), (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82), (23, "IQ4_XS", 256, 136), (29, "IQ1_M", 256, 56), (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66), (39, "MXFP4", 32, 17), (40, "NVFP4", 64, 36), (41, "Q1_0", 128, 18), (42, "Q2_0", 64, 18),
]


class Library:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.ggml_type_name.restype = ctypes.c_char_p
        self.library.ggml_type_size.restype = ctypes.c_size_t
        self.library.ggml_blck_size.restype = ctypes.c_int64
        for number, name, elements, size in FORMATS:
            assert self.library.ggml_type_name(number).decode().upper() == name.upper(), name
            assert self.library.ggml_blck_size(number) == elements, name
            assert self.library.ggml_type_size(number) == size, name

    def decode(self, name, blocks, elements):
        function = getattr(self.library, "dequantize_row_" + name.lower().replace("_k", "_K"))
        values = np.empty(elements, np.float32)
        function(ctypes.c_char_p(blocks), values.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(elements))
        return values


def random_bytes(number, count):
    with np.errstate(over="ignore"):
        z = (np.uint64(number) << np.uint64(32)) + np.arange(1, (count + 7) // 8 + 1, dtype=np.uint64)
        z *= np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return z.astype("<u8").tobytes()[:count]


def digest(values):
    bits = np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))
    return zlib.crc32(bits.astype("<u4").tobytes())


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def write_gguf(path, metadata, tensors):
    """metadata: {key: number of 32 bits}; tensors: [(name, format number, elements, bytes)]"""
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        header += text(key) + struct.pack("<II", 4, value)
    data = b""
    for name, number, elements, content in tensors:
        header += text(name) + struct.pack("<IQIQ", 1, elements, number, len(data))
        data += content + bytes(-len(content) % 32)
    path.write_bytes(header + bytes(-len(header) % 32) + data)


def grid_points(library, name, elements, size, indices, block_of, digits):
    """The points of a grid, packed: block_of(index) is a block whose first coordinates are the point's."""
    dimensions = 8 if len(digits) <= 4 else 4
    bits = 2 if len(digits) <= 4 else 3
    packed = []
    for index in range(indices):
        block = block_of(index)
        assert len(block) == size
        values = library.decode(name, block, elements)[:dimensions]
        packed.append(sum(digits.index(float(value)) << bits * j for j, value in enumerate(values)))
    return packed


def all_grids(library):
    """d is chosen so that the values are the coordinates, signs are 0."""
    half = lambda value: np.float16(value).tobytes()
    iq2 = [8.0, 25.0, 43.0]
    iq3_xxs = [4.0, 12.0, 20.0, 28.0, 36.0, 44.0, 52.0, 62.0]
    iq3_s = [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0]
    iq1 = [-0.875, 0.125, 1.125]
    return {
        "Iq2Xxs": grid_points(library, "IQ2_XXS", 256, 66, 256, lambda i: half(8) + bytes([i]) + bytes(63), iq2),
        "Iq2Xs": grid_points(library, "IQ2_XS", 256, 74, 512,
                             lambda i: half(8) + struct.pack("<H", i) + bytes(70), iq2),
        "Iq2S": grid_points(library, "IQ2_S", 256, 82, 1024,
                            lambda i: half(8) + bytes([i & 255]) + bytes(63) + bytes([i >> 8]) + bytes(15), iq2),
        "Iq3Xxs": grid_points(library, "IQ3_XXS", 256, 98, 256, lambda i: half(4) + bytes([i]) + bytes(95), iq3_xxs),
        "Iq3S": grid_points(library, "IQ3_S", 256, 110, 512,
                            lambda i: half(1) + bytes([i & 255]) + bytes(63) + bytes([i >> 8]) + bytes(43), iq3_s),
        "Iq1": grid_points(library, "IQ1_S", 256, 50, 2048,
                           lambda i: half(1) + bytes([i & 255]) + bytes(31) + struct.pack("<H", i >> 8) + bytes(14),
                           iq1),
    }


def write_grids(path, grids):
    lines = ["// Written by tests/data/gguf/make_block_vectors.py from what ggml's library decodes blocks to."]
    for name, points in grids.items():
        lines.append(f"constexpr uint16_t kPacked{name}[{len(points)}] = {{")
        lines += ["    " + " ".join(f"{p}," for p in points[i:i + 16]) for i in range(0, len(points), 16)]
        lines.append("};")
    path.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--blocks", type=int, default=DIGEST_BLOCKS, help="blocks of a digest")
    parser.add_argument("--output", type=Path, default=HERE / "blocks.gguf")
    arguments = parser.parse_args()
    library = Library(arguments.library)
    if arguments.blocks == DIGEST_BLOCKS:
        write_grids(HERE / "../../../src/detent/checkpoints/gguf/grid_points.inc", all_grids(library))
    metadata = {"digest.blocks": arguments.blocks}
    tensors = []
    for number, name, elements, size in FORMATS:
        blocks = random_bytes(number, arguments.blocks * size)
        values = library.decode(name, blocks, arguments.blocks * elements)
        metadata["digest." + name] = digest(values)
        tensors.append((name, number, 2 * elements, blocks[:2 * size]))
        tensors.append((name + ".values", 0, 2 * elements, values[:2 * elements].tobytes()))
    write_gguf(arguments.output, metadata, tensors)


main()
