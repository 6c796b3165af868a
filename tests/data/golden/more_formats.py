#!/usr/bin/env python3
"""Writes more_formats.json and more_formats.safetensors: what the formats give that formats.json has no cases of.

Everything is computed with exact fractions from the definitions in docs/formats.md, by code that shares nothing with
detent's: a result is the nearest of all candidate values, found by comparing distances. Run it in this folder, without
arguments; the output is always the same.
"""

import json
import math
import random
import struct
from fractions import Fraction

INFINITY = math.inf


def float32_of_bits(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def nearest_multiple(x, step):
    """The multiple of `step` nearest to the fraction x, ties to the even one."""
    below = x // step
    rest = x - below * step
    if rest * 2 > step or (rest * 2 == step and below % 2 == 1):
        below += 1
    return below * step


def floor_log2(x):
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    return exponent if x >= Fraction(2) ** exponent else exponent - 1


def on_grid(x, mantissa_bits, min_exponent):
    """The fraction x rounded to a binary floating-point grid without upper end."""
    if x == 0:
        return Fraction(0)
    exponent = max(floor_log2(abs(x)), min_exponent)
    magnitude = nearest_multiple(abs(x), Fraction(2) ** (exponent - mantissa_bits))
    return magnitude if x > 0 else -magnitude


def float32(x):
    """A fraction as float32: a Python float that holds one."""
    value = on_grid(Fraction(x), 23, -126)
    if abs(value) >= Fraction(2) ** 128:
        return math.copysign(INFINITY, value)
    return float(value)


def minifloat(x, mantissa_bits, min_exponent, largest, to_infinity=False):
    if math.isnan(x):
        return x
    if math.isinf(x):
        return x if to_infinity else math.copysign(largest, x)
    value = on_grid(Fraction(x), mantissa_bits, min_exponent)
    if abs(value) > Fraction(largest):
        return math.copysign(INFINITY if to_infinity else largest, x)
    return float(value)


def codebook(x, values):
    if math.isnan(x):
        return x
    if math.isinf(x):
        return values[-1] if x > 0 else values[0]
    return min(values, key=lambda value: (abs(Fraction(value) - Fraction(x)), value))


def binary_residual(tensor, levels, gammas):
    """Each level subtracts its gamma with the sign of what is left; a gamma that is not given is the mean magnitude of
    what is left of the finite elements."""
    rest = list(tensor)
    sums = [0.0] * len(tensor)
    for level in range(levels):
        if gammas:
            gamma = gammas[level]
        else:
            finite = [abs(Fraction(r)) for r in rest if math.isfinite(r)]
            gamma = float32(sum(finite, Fraction(0)) / len(finite))
        for i, r in enumerate(rest):
            if math.isnan(r):
                sums[i] = r
                continue
            term = gamma if r >= 0 else -gamma
            rest[i] = r if math.isinf(r) else float32(Fraction(r) - Fraction(term))
            sums[i] = float32(Fraction(sums[i]) + Fraction(term))
    return sums


def divided(a, b):
    return float32(Fraction(a) / Fraction(b))


def nvfp4(tensor, given_scale):
    finite = [abs(x) for x in tensor if math.isfinite(x)]
    scale_of_data = divided(max(finite, default=0.0), 2688)
    tensor_scale = given_scale or scale_of_data or 1.0
    result = []
    for begin in range(0, len(tensor), 16):
        block = tensor[begin:begin + 16]
        largest = max((abs(x) for x in block if math.isfinite(x)), default=0.0)
        block_scale = 448.0
        if largest > 0:
            block_scale = minifloat(divided(divided(largest, 6), tensor_scale), 3, -6, 448.0)
        scale = float32(Fraction(block_scale) * Fraction(tensor_scale))
        for x in block:
            if math.isnan(x):
                result.append(x)
            elif scale == 0:
                result.append(0.0)
            else:
                quotient = x if math.isinf(x) else divided(x, scale)
                element = minifloat(quotient, 1, 0, 6.0)
                value = float32(Fraction(element) * Fraction(scale))
                result.append(max(min(value, float32_of_bits(0x7F7FFFFF)), -float32_of_bits(0x7F7FFFFF)))
    return result


ELEMENTS = {  # mantissa bits, exponent of the smallest normal value, largest value, whether there is no -0
    "fp8_e4m3fn": (3, -6, 448.0, False),
    "fp8_e5m2": (2, -14, 57344.0, False),
    "fp8_e4m3fnuz": (3, -7, 240.0, True),
    "fp8_e5m2fnuz": (2, -15, 57344.0, True),
    "fp6_e3m2": (2, -2, 28.0, False),
    "fp6_e2m3": (3, 0, 7.5, False),
    "fp4_e2m1": (1, 0, 6.0, False),
}


def scaled(tensor, name, given_scale):
    """Elements of x / scale times the scale, which, where it is not given, lets the largest magnitude be the largest
    element."""
    mantissa_bits, min_exponent, largest, _ = ELEMENTS[name]
    scale = given_scale
    if scale is None:
        magnitude = max((abs(x) for x in tensor if math.isfinite(x)), default=0.0)
        scale = float32(Fraction(magnitude) / Fraction(largest)) if magnitude else 1.0
    result = []
    for x in tensor:
        if math.isnan(x):
            result.append(x)
            continue
        element = minifloat(x if math.isinf(x) else divided(x, scale), mantissa_bits, min_exponent, largest)
        result.append(float32(Fraction(element) * Fraction(scale)))
    return result


PRESETS = {  # mantissa bits, exponent of the smallest normal value, largest value, whether there is an infinity
    "fp8_e5m2": (2, -14, 57344.0, True),
    "fp8_e5m2fnuz": (2, -15, 57344.0, False),
    "fp16": (10, -14, 65504.0, True),
    "bf16": (7, -126, float32_of_bits(0x7F7F0000), True),
    "tf32": (10, -126, float32_of_bits(0x7F7FE000), True),
}


def with_neighbours(value):
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return [float32_of_bits(b) for b in (max(bits, 1) - 1, bits, bits + 1)]


def inputs_of_preset(mantissa_bits, min_exponent, largest):
    """Ties and values of some binades with their float32 neighbours, both ends, and random bits."""
    magnitudes = [0.0, float32_of_bits(1), 1.0]
    step = 2.0 ** -mantissa_bits
    for exponent in (min_exponent - 1, min_exponent, min_exponent + 1, -1, 0, 5):
        for k in (0, 1, 2, 3, 2 ** mantissa_bits - 2, 2 ** mantissa_bits - 1):
            for value in ((1 + k * step) * 2.0 ** exponent, (1 + (k + 0.5) * step) * 2.0 ** exponent):
                magnitudes += with_neighbours(float32(value))
    for k in (0.5, 1, 1.5, 2.5, 3.5):  # subnormals of the format
        magnitudes += with_neighbours(float32(Fraction(k) * Fraction(2) ** (min_exponent - mantissa_bits)))
    top_step = 2.0 ** (math.frexp(largest)[1] - 1 - mantissa_bits)
    magnitudes += with_neighbours(largest) + [x for x in with_neighbours(float32(Fraction(largest) + Fraction(top_step) / 2))]
    magnitudes += [float32_of_bits(0x7F7FFFFF), INFINITY]
    draw = random.Random(mantissa_bits * 1000 + min_exponent)
    magnitudes += [float32_of_bits(draw.randrange(0x7F800000)) for _ in range(200)]
    magnitudes += [float32(draw.uniform(0.5, 2.0)) for _ in range(100)]
    return [x for m in magnitudes if not math.isnan(m) for x in (m, -m)] + [math.nan]


def normal_values(seed, count, spread=1.0):
    draw = random.Random(seed)
    return [float32(draw.gauss(0, 1) * spread) for _ in range(count)]


def dyadic_values(seed, count):
    """Multiples of 1/256, whose sums are exact in every arithmetic."""
    draw = random.Random(seed)
    return [draw.randrange(-1024, 1025) / 256 for _ in range(count)]


def cases():
    for name, (mantissa_bits, min_exponent, largest, has_infinity) in PRESETS.items():
        x = inputs_of_preset(mantissa_bits, min_exponent, largest)
        for to_infinity in ([False, True] if has_infinity else [False]):
            y = [minifloat(v, mantissa_bits, min_exponent, largest, to_infinity) for v in x]
            yield name + (":saturate=false" if to_infinity else ""), x, y

    draw = random.Random(7)
    for values in ([0.5], [-1.0, 0.0, 1.0], [-8.0, -0.125, 0.0, 0.25, 0.5, 6.0],
                   sorted({draw.randrange(-4096, 4097) / 512 for _ in range(40)}),
                   sorted({draw.randrange(-32768, 32769) / 4096 for _ in range(300)})):
        middles = [(a + b) / 2 for a, b in zip(values, values[1:])]
        x = values + [v for m in middles if m != 0 for v in with_neighbours(abs(m)) + [m]]
        x += normal_values(len(values), 100, 4.0) + [INFINITY, -INFINITY, math.nan, 1e30, -1e30]
        text = "x".join(repr(v) for v in values) + ("x" if len(values) == 1 else "")
        yield "codebook:values=" + text, x, [codebook(v, values) for v in x]

    for gammas in ([1.0], [1.0, 0.5], [2.0, 0.75, 0.3125, 0.125]):
        x = normal_values(len(gammas), 300, 2.0) + [0.0, INFINITY, -INFINITY, math.nan, 1e-40, -1e-40, 3.0, -3.0]
        text = "x".join(repr(g) for g in gammas) + ("x" if len(gammas) == 1 else "")
        yield f"binary_residual:levels={len(gammas)},gamma={text}", x, binary_residual(x, len(gammas), gammas)
    for levels in (1, 2):  # later levels would sum what is not exact
        x = dyadic_values(levels, 256) + [0.0, -0.0]
        yield f"binary_residual:levels={levels}", x, binary_residual(x, levels, [])

    for number, name in enumerate(ELEMENTS):
        x = normal_values(40 + number, 300, 10.0 ** (number - 3)) + [0.0, -0.0, INFINITY, -INFINITY, math.nan]
        yield f"scaled:element={name}", x, scaled(x, name, None)
        for scale in (0.3, 0.0078125, 1e-30):
            scale = float32(scale)
            middles = [float32(Fraction(k, 16) * Fraction(scale)) for k in range(-130, 131)]
            x = middles + normal_values(50 + number, 60, 30.0 * scale) + [1e30, -1e30, 1e-40, INFINITY, math.nan]
            yield f"scaled:element={name},scale={scale!r}", x, scaled(x, name, scale)

    ties = [k / 4 for k in range(-26, 27)]
    for count, spread in ((16, 1.0), (160, 1.0), (1000, 1e-3), (333, 1e30)):
        x = normal_values(count, count, spread)
        yield "nvfp4", x, nvfp4(x, None)
    mixed = normal_values(3, 48) + [0.0] * 16 + [float32(v * 1e-6) for v in normal_values(4, 32)]
    mixed += [INFINITY, -INFINITY, math.nan, 1.0, -2.5] + normal_values(5, 11) + [INFINITY, math.nan] + [0.0] * 14 + ties
    yield "nvfp4", mixed, nvfp4(mixed, None)
    for scale in (1.0, 0.0078125, 1.0000000031710769e-30):
        x = ties + mixed + normal_values(6, 40, 100.0)
        yield f"nvfp4:tensor_scale={scale!r}", x, nvfp4(x, float32(scale))


def main():
    entries, header, data = [], {}, b""
    for number, (name, x, y) in enumerate(cases()):
        for kind, values in (("x", x), ("y", y)):
            content = struct.pack(f"<{len(values)}f", *values)
            header[f"{kind}{number}"] = {"dtype": "F32", "shape": [len(values)],
                                         "data_offsets": [len(data), len(data) + len(content)]}
            data += content
        entries.append({"format": name, "input": f"x{number}", "output": f"y{number}", "relative_tolerance": 0.0})
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open("more_formats.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open("more_formats.json", "w", encoding="ascii") as file:
        file.write('{"cases": [\n' + ",\n".join(json.dumps(entry) for entry in entries) + "\n]}\n")


main()
