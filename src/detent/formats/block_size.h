#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detent/core/value.h"

namespace detent {

/// The key "block_size": sizes aligned with the last dimensions of a tensor; missing leading ones are 1,
/// superfluous ones ignored; -1 stands for the whole dimension, as does a size beyond it. A single number
/// runs along one dimension (QuantSpec::block_axis), blocks being 1 in all others.
struct BlockSize {
  std::vector<int64_t> sizes;

  bool is_single() const { return sizes.size() == 1; }

  static std::string field_type();
  Value to_value() const;
  /// Throws Error on anything but a number or a list of numbers, each at least 1 or -1.
  static BlockSize from_value(const Value& value, const std::string& where);

  bool operator==(const BlockSize&) const = default;
};

}  // namespace detent
