#pragma once

#include <bit>
#include <cstdint>

namespace detent {

/// The codes low, low + 1, ... high, and the wires that hold one: plain binary where none is below 0, else
/// two's complement.
struct CodeRange {
  int64_t low = 0;
  int64_t high = 0;

  bool is_signed() const { return low < 0; }
  int width() const {
    const auto magnitude = static_cast<uint64_t>(low < 0 && ~low > high ? ~low : high);
    const int bits = static_cast<int>(std::bit_width(high < 0 ? static_cast<uint64_t>(~low) : magnitude));
    return is_signed() ? bits + 1 : (bits == 0 ? 1 : bits);
  }
  bool operator==(const CodeRange&) const = default;
};

}  // namespace detent
