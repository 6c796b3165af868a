#pragma once

#include "detent/formats/codes/block_coding.h"
#include "detent/formats/codes/minifloat_index.h"

namespace detent {

/// Elements: those of fp4_e2m1. Scales: fp8_e4m3fn codes, without sign and NaN, of those whose product with
/// the tensor's scale is finite.
template <>
struct BlockCoding<Nvfp4> {
  static constexpr const char* kScaleStream = "scales";
  static Format elements(const Nvfp4&) { return Fp4E2M1(); }
  static std::vector<ParameterStream> streams(const Nvfp4&) {
    return {{"tensor_scale", DType::kFloat32, 1, kAboveZero}};
  }
  static void store(const Nvfp4&, const Nvfp4Parameters& tensor, double* numbers) {
    *numbers = static_cast<double>(tensor.tensor_scale);
  }
  /// The kernel gives the elements themselves, to be kept as they are, unless the scale rounded to 0.
  static BlockScales scales(const Nvfp4&, const double* numbers) {
    const MinifloatIndex index(Fp8E4M3Fn::kGrid);
    const auto tensor_scale = static_cast<float>(*numbers);
    BlockScales scales;
    for (uint32_t code = 0; code <= index.index_of(Fp8E4M3Fn::kGrid.largest); ++code) {
      const float scale = index.magnitude_of(code) * tensor_scale;
      if (!std::isfinite(scale)) break;
      scales.push_back({.factor = static_cast<double>(scale),
                        .plain_element = true,
                        .plain_value = std::isfinite(scale * Fp4E2M1::kGrid.largest),
                        .to_element = scale > 0 ? 1.0F : 0.0F,
                        .to_value = scale,
                        .toward_zero = false});
    }
    return scales;
  }
};

}  // namespace detent
