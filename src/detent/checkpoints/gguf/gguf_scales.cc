#include "detent/checkpoints/gguf/gguf_file.h"

#include <algorithm>
#include <array>
#include <vector>

#include "detent/core/parallel.h"

namespace detent {
namespace {

/// Bytes [begin, end) of a block.
struct Range {
  uint32_t begin = 0;
  uint32_t end = 0;
};

/// Part of the codes of a block, and its bytes where all integers are 1. Integers are 0 where the format has
/// minimums and all of these are 0.
struct CodeBytes {
  Range range = {};
  uint8_t of_ones = 0;
};

/// Where a block has what: decoding it with other codes tells its scales and minimums, whatever they are made
/// of.
struct BlockParts {
  uint32_t id;
  int64_t group;  // elements that share a scale
  CodeBytes codes;
  CodeBytes more_codes = {};
  Range minimum = {};  // what minimums are multiplied by
};

constexpr std::array<BlockParts, 19> kParts = {{
    {.id = 2, .group = 32, .codes = {{2, 18}, 0x99}},                                                // Q4_0
    {.id = 3, .group = 32, .codes = {{4, 20}, 0x11}, .minimum = {2, 4}},                             // Q4_1
    {.id = 6, .group = 32, .codes = {{6, 22}, 0x11}, .more_codes = {{2, 6}, 0xFF}},                  // Q5_0
    {.id = 7, .group = 32, .codes = {{8, 24}, 0x11}, .more_codes = {{4, 8}, 0}, .minimum = {2, 4}},  // Q5_1
    {.id = 8, .group = 32, .codes = {{2, 34}, 0x01}},                                                // Q8_0
    {.id = 9, .group = 32, .codes = {{4, 36}, 0x01}},                                                // Q8_1
    {.id = 10, .group = 16, .codes = {{16, 80}, 0x55}, .minimum = {82, 84}},                         // Q2_K
    {.id = 11, .group = 16, .codes = {{32, 96}, 0x55}, .more_codes = {{0, 32}, 0xFF}},               // Q3_K
    {.id = 12, .group = 32, .codes = {{16, 144}, 0x11}, .minimum = {2, 4}},                          // Q4_K
    {.id = 13,
     .group = 32,
     .codes = {{48, 176}, 0x11},
     .more_codes = {{16, 48}, 0},
     .minimum = {2, 4}},                                                                   // Q5_K
    {.id = 14, .group = 16, .codes = {{0, 128}, 0x11}, .more_codes = {{128, 192}, 0xAA}},  // Q6_K
    {.id = 15, .group = 256, .codes = {{4, 260}, 0x01}},                                   // Q8_K
    {.id = 20, .group = 32, .codes = {{2, 18}, 0x88}},                                     // IQ4_NL
    {.id = 23, .group = 32, .codes = {{8, 136}, 0x88}},                                    // IQ4_XS
    {.id = 35, .group = 256, .codes = {{0, 64}, 0xAA}},                                    // TQ2_0
    {.id = 39, .group = 32, .codes = {{1, 17}, 0x11}},                                     // MXFP4
    {.id = 40, .group = 16, .codes = {{4, 36}, 0x11}},                                     // NVFP4
    {.id = 41, .group = 128, .codes = {{2, 18}, 0xFF}},                                    // Q1_0
    {.id = 42, .group = 64, .codes = {{2, 18}, 0xAA}},                                     // Q2_0
}};

void fill(std::span<std::byte> block, const Range& range, uint8_t byte) {
  std::ranges::fill(block.subspan(range.begin, range.end - range.begin), std::byte{byte});
}

/// The first element of each group, of blocks that `change` has changed.
template <class Change>
Tensor first_elements(const GgufTensor& tensor, const BlockParts& parts, const Change& change) {
  constexpr int64_t kGrain = 1024;
  const GgufFormat& format = *tensor.format;
  Tensor result(DType::kFloat32, {tensor.shape[0], tensor.shape[1] / parts.group});
  float* const to = result.values<float>().data();
  const int64_t groups = format.elements / parts.group;
  const auto blocks = static_cast<int64_t>(tensor.bytes.size() / format.bytes);
  parallel_for(blocks, kGrain, [&](int64_t begin, int64_t end) {
    std::vector<std::byte> block(format.bytes);
    std::vector<float> values(format.elements);
    for (int64_t i = begin; i < end; ++i) {
      std::ranges::copy(tensor.bytes.subspan(static_cast<size_t>(i) * format.bytes, format.bytes),
                        block.begin());
      change(std::span(block));
      decode_gguf_blocks(format, block, values);
      for (int64_t g = 0; g < groups; ++g) to[i * groups + g] = values[static_cast<size_t>(g * parts.group)];
    }
  });
  return result;
}

}  // namespace

std::optional<GgufScales> gguf_scales(const GgufTensor& tensor) {
  const auto* const parts = std::ranges::find(kParts, tensor.format->id, &BlockParts::id);
  if (parts == kParts.end() || tensor.shape.size() != 2) return std::nullopt;
  const bool has_minimums = parts->minimum.end > 0;
  GgufScales found{.group = parts->group,
                   .scales = first_elements(tensor, *parts, [&](std::span<std::byte> block) {
                     fill(block, parts->minimum, 0);
                     fill(block, parts->codes.range, parts->codes.of_ones);
                     fill(block, parts->more_codes.range, parts->more_codes.of_ones);
                   })};
  if (has_minimums) {
    found.minimums = first_elements(tensor, *parts, [&](std::span<std::byte> block) {
      fill(block, parts->codes.range, 0);
      fill(block, parts->more_codes.range, 0);
    });
  }
  return found;
}

}  // namespace detent
