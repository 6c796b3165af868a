#pragma once

#include <optional>

#include "detent/statistics/statistic.h"

namespace detent {

/// Options of the statistics that look at the distribution of the values. With the defaults they cost at most
/// 512 KiB while exact; then 8 KiB for each power of two that occurs (both signs), or, where dimensions are
/// kept, 512 bytes for each and kept position.
struct ValueOptions {
  Dims dims;
  bool abs = false;
  int64_t exact_values = int64_t{1} << 16;
  std::optional<int> key_bits;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("dims", self.dims, kDimsHelp);
    visit("abs", self.abs, kAbsHelp);
  }
  /// Fields after a statistic's own.
  template <class Self, class Visitor>
  static void resolution_fields(Self& self, Visitor& visit) {
    visit("exact_values", self.exact_values, "exact up to so many values, within a bound beyond",
          Between{0, 1e15});
    visit("key_bits", self.key_bits,
          "beyond: bits by which values are told apart, relative error 2^(8 - key_bits); NA: 20, or 16 where "
          "dimensions are kept",
          Between{KeyHistogram::kMinBits, KeyHistogram::kMaxBits});
  }

  ValueResolution resolution() const;
  Needs needs() const { return {.values = resolution()}; }
  std::vector<ValueBin> bins(const Accumulators& data, size_t slot) const {
    return data.bins(slot, resolution(), abs);
  }
  /// For binned values, adds relative_error: how far a value may be from its bin.
  void write_error(const Accumulators& data, Table& table) const;
};

}  // namespace detent
