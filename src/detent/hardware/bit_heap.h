#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "detent/hardware/lut_netlist.h"

namespace detent {

/// A sum of bits times constants, modulo 2^width, as 6-input tables: columns of bits of equal weight, which
/// counters of up to six bits compress (L. Dadda 1965) until two rows are left to be added.
class BitHeap {
 public:
  using Literal = LutNetlist::Literal;

  BitHeap(LutNetlist& netlist, int width) : netlist_(netlist), columns_(static_cast<size_t>(width)) {}

  /// literal * weight, with the fewest digits -1, 0, 1 of the weight (A. D. Booth 1951; G. W. Reitwiesner
  /// 1960).
  void add(Literal literal, int64_t weight);
  void add_constant(int64_t value) { constant_ += static_cast<uint64_t>(value); }

  /// The bits of the sum, the lowest first.
  std::vector<Literal> sum();

 private:
  void compress();
  bool compress_column(size_t column, std::vector<std::vector<Literal>>& next);

  LutNetlist& netlist_;
  std::vector<std::vector<Literal>> columns_;
  uint64_t constant_ = 0;
};

}  // namespace detent
