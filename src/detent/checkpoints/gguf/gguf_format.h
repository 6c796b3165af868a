#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace detent {

/// How a tensor of a GGUF file is stored: blocks of `elements` neighbours of a row, `bytes` each. The
/// formats, their numbers and names are those of ggml (ggml.h, enum ggml_type); what the bytes mean is said
/// beside each decoder.
struct GgufFormat {
  uint32_t id;
  const char* name;  // "Q4_K", as llama.cpp prints it
  uint32_t elements;
  uint32_t bytes;

  bool operator==(const GgufFormat& other) const { return id == other.id; }
};

/// All formats, by rising id.
std::span<const GgufFormat> gguf_formats();

/// nullptr where no format has the number; those that llama.cpp has taken back are among these.
const GgufFormat* find_gguf_format(uint32_t id);

/// "F32, F16, ..., NVFP4": for messages.
std::string gguf_format_names();

/// Whether elements are stored one by one, as numbers of C++ or floats of 16 bits: nothing has to be decoded.
bool holds_plain_numbers(const GgufFormat& format);

/// The float32 that each element stands for, one rounding an operation, as ggml's dequantize_row_* computes
/// it: the same bits on every processor. `values` are a multiple of the format's elements, `blocks` their
/// bytes. Plain numbers are not decoded here but by to_float32.
void decode_gguf_blocks(const GgufFormat& format, std::span<const std::byte> blocks, std::span<float> values);

/// The points that blocks of the IQ formats index, a coordinate a byte, the first lowest. Coordinates of iq1
/// are signed, the others magnitudes.
struct GridPoints {
  std::array<uint64_t, 256> iq2_xxs;
  std::array<uint64_t, 512> iq2_xs;
  std::array<uint64_t, 1024> iq2_s;
  std::array<uint32_t, 256> iq3_xxs;
  std::array<uint32_t, 512> iq3_s;
  std::array<uint64_t, 2048> iq1;
};

/// Unpacked once, at the first call.
const GridPoints& grid_points();

}  // namespace detent
