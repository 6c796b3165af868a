#pragma once

#include "detent/formats/binary.h"
#include "detent/formats/codes/coding.h"

namespace detent {

/// 1 for +1, 0 for -1 (or 0, when not bipolar).
template <>
struct Coding<Binary> {
  static std::vector<ParameterStream> streams(const Binary& format) {
    if (format.scaling == BinaryScaling::kNone) return {};
    return {{"scales", DType::kFloat32}};
  }
  static void store(const Binary& format, const BinaryParameters& group, double* numbers) {
    if (format.scaling != BinaryScaling::kNone) *numbers = static_cast<double>(group.high);
  }

  class Coder {
   public:
    static constexpr bool kHasNan = false;

    Coder(const Binary& format, const double* numbers)
        : high_(format.scaling == BinaryScaling::kNone ? 1.0F : static_cast<float>(*numbers)),
          low_(format.bipolar ? 0 - high_ : 0.0F) {}

    uint32_t code_of(float value) const { return value > 0 ? 1U : 0U; }
    float value_of(uint32_t code) const { return code != 0 ? high_ : low_; }

   private:
    float high_;
    float low_;
  };
};

}  // namespace detent
