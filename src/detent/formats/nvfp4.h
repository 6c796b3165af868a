#pragma once

#include <limits>
#include <optional>

#include "detent/formats/block_format.h"

namespace detent {

/// What the kernel needs. Shared are: the scale of the elements, what they are divided by, 1 over that.
struct Nvfp4Parameters {
  static constexpr bool kByBlocks = true;
  float tensor_scale = 1;

  /// Blocks with scales from 2^-60 to 2^60 are plain: dividing by them neither overflows nor loses bits.
  static constexpr float kSmallestPlain = 0x1p-60F;
  static constexpr float kLargestPlain = 0x1p60F;

  /// The code is the block scale's in fp8_e4m3fn.
  BlockEntry entry(float max) const;
};

/// e2m1 elements (0, 0.5, 1, 1.5, 2, 3, 4, 6 and negatives) in blocks of 16 with an fp8_e4m3fn scale each,
/// and one float32 scale for the tensor. All in float32, each operation rounded to nearest even:
///   tensor scale = the one that is given, else max |x| of the tensor / 2688, where 2688 = 6 * 448; 1 where
///                  that is 0
///   block scale  = e4m3fn(max |x| of the block / 6 / tensor scale), at most 448
///   scale        = block scale * tensor scale
///   element      = e2m1(x / scale), saturating at 6; a scale of 0 gives zeros
///   value        = element * scale, at most the largest float32
/// Infinities and NaN have no part in a max; infinities give +-6 * scale. A block without a finite non-zero
/// element has the block scale 448.
struct Nvfp4 : BlockFormatBase {
  static constexpr const char* kName = "nvfp4";
  static constexpr const char* kHelp = "4-bit floats in blocks of 16 with 8-bit scales and a tensor scale";
  static constexpr int64_t kBlockSize = 16;
  static constexpr float kLargestInScales = 2688;  // magnitude over tensor scale: 6 * 448
  using Parameters = Nvfp4Parameters;

  std::optional<float> tensor_scale = std::nullopt;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("tensor_scale", self.tensor_scale, "scale of the tensor; NA: its largest magnitude / 2688",
          Between{1e-45, static_cast<double>(std::numeric_limits<float>::max() / kLargestInScales)});
  }

  double bits() const { return 4; }
  int shared_bits() const { return 8; }
  BlockSize blocks() const { return {{kBlockSize}}; }
  void validate(const std::string&) const {}

  Parameters parameters(const Group& group, uint64_t /*seed*/) const {
    if (tensor_scale) return {.tensor_scale = *tensor_scale};
    const float scale = group.largest_magnitude() / kLargestInScales;
    return {.tensor_scale = scale > 0 ? scale : 1.0F};
  }

  bool operator==(const Nvfp4&) const = default;
};

/// The fp8_e4m3fn value nearest to 0 <= x: the sum with 2^(e + 20) has the step 2^(e - 3) as its last bit.
inline float round_to_e4m3fn(float x) {
  const float held = std::min(x, 448.0F);
  const float binade = std::bit_cast<float>(std::bit_cast<uint32_t>(held) & 0x7F800000U);
  const float addend = std::max(binade, 0x1p-6F) * 0x1p20F;
  return (held + addend) - addend;
}

/// The code of such a value: a multiple of 2^-9 below 2^-6, from there on the upper bits of float32 with
/// another bias.
inline uint8_t e4m3fn_code(float value) {
  const uint32_t upper = std::bit_cast<uint32_t>(value) >> 20;
  return static_cast<uint8_t>(value < 0x1p-6F ? static_cast<uint32_t>(value * 0x1p9F) : upper - (120U << 3));
}

inline BlockEntry Nvfp4Parameters::entry(float max) const {
  const float block_scale = max > 0 ? round_to_e4m3fn(max / 6.0F / tensor_scale) : 448.0F;
  const float scale = block_scale * tensor_scale;
  const float divisor = scale > 0 ? scale : 1.0F;
  return {.shared = {scale, divisor, 1 / divisor},
          .code = e4m3fn_code(block_scale),
          .plain = scale >= kSmallestPlain && scale <= kLargestPlain};
}

}  // namespace detent
