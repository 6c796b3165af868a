#pragma once

#include <algorithm>
#include <utility>

#include "detent/formats/binary_residual.h"
#include "detent/formats/codes/coding.h"

namespace detent {

/// Bit l is 1 where b_l = +1. Of codes with the same value, the lowest.
template <>
struct Coding<BinaryResidual> {
  static std::vector<ParameterStream> streams(const BinaryResidual& format) {
    if (!format.gamma.empty()) return {};
    return {{"scales", DType::kFloat32, format.levels}};
  }
  static void store(const BinaryResidual& format, const BinaryResidualParameters& group, double* numbers) {
    if (format.gamma.empty()) std::ranges::copy(group.gammas, numbers);
  }

  class Coder {
   public:
    static constexpr bool kHasNan = false;

    Coder(const BinaryResidual& format, const double* numbers) {
      const auto levels = static_cast<size_t>(format.levels);
      for (uint32_t code = 0; code < (1U << levels); ++code) {
        float sum = 0;
        for (size_t l = 0; l < levels; ++l) {
          const float gamma = format.gamma.empty() ? static_cast<float>(numbers[l]) : format.gamma[l];
          sum += ((code >> l) & 1U) != 0 ? gamma : -gamma;
        }
        values_.push_back(sum);
        sorted_.emplace_back(sum, code);
      }
      std::ranges::sort(sorted_);
    }

    uint32_t code_of(float value) const {
      return std::ranges::lower_bound(sorted_, value, {}, &std::pair<float, uint32_t>::first)->second;
    }
    float value_of(uint32_t code) const { return values_[code]; }

   private:
    std::vector<float> values_;  // by code
    std::vector<std::pair<float, uint32_t>> sorted_;
  };
};

}  // namespace detent
