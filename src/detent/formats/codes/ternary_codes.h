#pragma once

#include <bit>

#include "detent/formats/codes/coding.h"
#include "detent/formats/ternary.h"

namespace detent {

/// 0, 1 and 3 for 0, +1 and -1: two's complement. 2 decodes as 3 does.
template <>
struct Coding<Ternary> {
  static std::vector<ParameterStream> streams(const Ternary& format) {
    if (!format.scaling_factor) return {};
    return {{"scales", DType::kFloat32}};
  }
  static void store(const Ternary& format, const TernaryParameters& group, double* numbers) {
    if (format.scaling_factor) *numbers = static_cast<double>(group.alpha);
  }

  class Coder {
   public:
    static constexpr bool kHasNan = false;

    Coder(const Ternary& format, const double* numbers)
        : alpha_(format.scaling_factor ? static_cast<float>(*numbers) : 1.0F) {}

    uint32_t code_of(float value) const { return (value < 0 ? 2U : 0U) | (value != 0 ? 1U : 0U); }
    float value_of(uint32_t code) const {
      const uint32_t magnitude = code == 0 ? 0U : std::bit_cast<uint32_t>(alpha_);
      return std::bit_cast<float>(magnitude ^ ((code & 2U) << 30));
    }

   private:
    float alpha_;
  };
};

}  // namespace detent
