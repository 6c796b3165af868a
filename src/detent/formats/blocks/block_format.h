#pragma once

#include <array>
#include <concepts>
#include <string>
#include <variant>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/blocks/block_layout.h"
#include "detent/formats/blocks/block_scale.h"
#include "detent/formats/elements/element.h"
#include "detent/formats/elements/fixed.h"
#include "detent/formats/elements/log.h"
#include "detent/formats/elements/minifloat.h"
#include "detent/formats/groups/group.h"

namespace detent {

/// Element formats of blocks.
using BlockElement = std::variant<Fixed, MinifloatIeee, Log, Fp8E4M3Fn, Fp8E5M2, Fp6E3M2, Fp6E2M3, Fp4E2M1>;

/// Common base of block formats. Blocks share an exponent or a scale that follows from `max`, the largest
/// finite |x| of the block; NaN (kept) and infinities (saturating) are ignored. Blocks of zeros stay zeros
/// where there is a zero; a block without a finite nonzero element has the largest shared exponent, unless
/// its format says otherwise.
struct BlockFormatBase {
  static constexpr std::array<const char*, 0> kAliases = {};

  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const { return "its scales are those of its blocks"; }
  [[noreturn]] std::vector<float> values(const std::string& where) const {
    fail("{}: the values depend on the data, because blocks of it share a scale", where);
  }

  /// Nothing is stored for the tensor.
  std::vector<ParameterStream> streams() const { return {}; }
  template <class P>
  void store(const P& /*tensor*/, double* /*numbers*/) const {}

  bool operator==(const BlockFormatBase&) const = default;
};

inline constexpr const char* kBlockSizeHelp =
    "elements that share a scale: a number along the reduction dimension, or a list for the last dimensions";

/// Rule for block scales: the shared value of a block with largest finite magnitude `max`, and its stored
/// code. Its vector twin, which also rounds the elements, is the block kernel (block_kernel-inl.h; for a
/// BlockGrid, block_grid-inl.h).
template <class R>
concept BlockScaleRule = R::kByBlocks && requires(const R& rule, float max) {
  { rule.shared_scale(max) } -> std::same_as<SharedScale>;
};

/// A block format: a rule for the shared scale times an element format. BlockFormatBase provides some of
/// these.
template <class F>
concept BlockFormat = NumberFormat<F> && BlockScaleRule<typename F::Parameters> &&
    requires(const F format, const typename F::Parameters& rule, const Group& group, double* numbers) {
  { format.blocks() } -> std::same_as<BlockSize>;
  /// Parameters of the whole tensor, as one group.
  { format.parameters(group, uint64_t{}) } -> std::same_as<typename F::Parameters>;
  /// The format of the elements, with scale 1.
  { format.elements() } -> std::same_as<BlockElement>;
  /// Bits stored for each block, at most 8, and the name of their stream.
  { format.shared_bits() } -> std::same_as<int>;
  { F::kScaleStream } -> std::convertible_to<const char*>;
  /// Streams stored for the tensor.
  { format.streams() } -> std::same_as<std::vector<ParameterStream>>;
  format.store(rule, numbers);
  /// Scale of each block code.
  { format.scales(numbers) } -> std::same_as<BlockScales>;
};

}  // namespace detent
