#pragma once

#include <array>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/block_scale.h"
#include "detent/formats/block_size.h"
#include "detent/formats/group.h"

namespace detent {

/// What all block formats have in common. Blocks share an exponent or a scale that follows from `max`, the
/// largest finite |x| of the block: neither NaN, which stays as it is, nor infinities, which saturate, have a
/// part in it.
/// Blocks of zeros stay zeros where there is a zero; a block without a finite non-zero element has the
/// largest shared exponent, unless its format says otherwise.
struct BlockFormatBase {
  static constexpr std::array<const char*, 0> kAliases = {};

  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const { return "its scales are those of its blocks"; }
  [[noreturn]] std::vector<float> values(const std::string& where) const {
    fail("{}: the values depend on the data, because blocks of it share a scale", where);
  }

  bool operator==(const BlockFormatBase&) const = default;
};

inline constexpr const char* kBlockSizeHelp =
    "elements that share a scale: a number along the reduction dimension, or a list for the last dimensions";

}  // namespace detent
