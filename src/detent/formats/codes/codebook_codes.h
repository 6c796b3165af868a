#pragma once

#include <algorithm>
#include <span>

#include "detent/formats/codebook.h"
#include "detent/formats/codes/coding.h"

namespace detent {

/// The index. Those behind the last value decode to it.
template <>
struct Coding<Codebook> {
  static std::vector<ParameterStream> streams(const Codebook&) { return {}; }
  static void store(const Codebook&, const CodebookParameters&, double*) {}

  class Coder {
   public:
    static constexpr bool kHasNan = false;

    /// `format` must outlive this.
    Coder(const Codebook& format, const double*) : values_(format.entries) {}

    uint32_t code_of(float value) const {
      return static_cast<uint32_t>(std::ranges::lower_bound(values_, value) - values_.begin());
    }
    float value_of(uint32_t code) const { return values_[std::min<size_t>(code, values_.size() - 1)]; }

   private:
    std::span<const float> values_;
  };
};

}  // namespace detent
