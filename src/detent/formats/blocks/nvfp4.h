#pragma once

#include <limits>
#include <optional>
#include <span>

#include "detent/formats/blocks/block_format.h"
#include "detent/formats/elements/qparams_from_range.h"

namespace detent {

/// Parameters of the kernel. Shared are: the scale of the elements, what they are divided by, 1 over that.
struct Nvfp4Parameters {
  static constexpr bool kByBlocks = true;
  float tensor_scale = 1;

  /// Blocks with scales from 2^-60 to 2^60 are plain: dividing by them neither overflows nor loses bits.
  static constexpr float kSmallestPlain = 0x1p-60F;
  static constexpr float kLargestPlain = 0x1p60F;

  /// Block scales are rounded to these values.
  static constexpr MinifloatGrid kScaleGrid = Fp8E4M3Fn::kGrid;
  static constexpr float kLeastScaleAddend =
      power_of_two(kScaleGrid.min_exponent - kScaleGrid.mantissa_bits + 23);
  /// Grid that x over the scale is rounded to.
  static constexpr MinifloatGrid kElementGrid = Fp4E2M1::kGrid;
  static constexpr float kLeastElementAddend =
      power_of_two(kElementGrid.min_exponent - kElementGrid.mantissa_bits + 23);

  /// The code is the block scale's in fp8_e4m3fn.
  SharedScale shared_scale(float max) const;
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
  static constexpr const char* kScaleStream = "scales";
  static constexpr bool kRangePerChannel = false;

  std::optional<float> tensor_scale = std::nullopt;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("tensor_scale", self.tensor_scale, "scale of the tensor; NA: its largest magnitude / 2688",
          Between{1e-45, static_cast<double>(std::numeric_limits<float>::max() / kLargestInScales)});
  }

  /// With the scale of a tensor whose largest magnitude is that of `ranges`.
  Nvfp4 qparams_from_range(std::span<const Interval> ranges, ScaleForm form) const;

  double bits() const { return 4; }
  int shared_bits() const { return 8; }
  BlockSize blocks() const { return {{kBlockSize}}; }
  void validate(const std::string&) const {}

  /// As in fp4_e2m1.
  BlockElement elements() const { return Fp4E2M1(); }
  /// fp8_e4m3fn codes, without sign and NaN, of those whose product with the tensor's scale is finite.
  BlockScales scales(const double* numbers) const;
  std::vector<ParameterStream> streams() const { return {{"tensor_scale", DType::kFloat32, 1, kAboveZero}}; }
  void store(const Parameters& tensor, double* numbers) const {
    *numbers = static_cast<double>(tensor.tensor_scale);
  }
  Parameters parameters(const Group& group, uint64_t seed) const;

  bool operator==(const Nvfp4&) const = default;
};

}  // namespace detent
