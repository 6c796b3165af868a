#pragma once

#include <concepts>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "detent/formats/affine.h"
#include "detent/formats/binary.h"
#include "detent/formats/binary_residual.h"
#include "detent/formats/codebook.h"
#include "detent/formats/block_fp.h"
#include "detent/formats/block_log.h"
#include "detent/formats/block_minifloat.h"
#include "detent/formats/fixed.h"
#include "detent/formats/log.h"
#include "detent/formats/minifloat.h"
#include "detent/formats/minifloat_denorm.h"
#include "detent/formats/minifloat_presets.h"
#include "detent/formats/mx.h"
#include "detent/formats/nvfp4.h"
#include "detent/formats/ternary.h"

namespace detent {

/// Every number format. To add one: its header and its line here and in the list below; its kernel and a line
/// in all-inl.h; its codes and a line in codes/all.h.
using Format = std::variant<Fixed, Ternary, Binary, Affine, MinifloatIeee, MinifloatDenorm, Log,
                            BinaryResidual, Codebook, Fp8E4M3Fn, Fp8E5M2, Fp8E4M3Fnuz, Fp8E5M2Fnuz, Fp6E3M2,
                            Fp6E2M3, Fp4E2M1, Fp16, Bf16, Tf32, BlockFp, BlockMinifloat, BlockLog, Mx, Nvfp4>;

/// Formats whose elements are rounded by parameters of their group: `unsaturated` are the inputs that do not
/// saturate.
template <class F>
concept ElementFormat = requires(const typename F::Parameters& parameters) {
  { parameters.unsaturated } -> std::convertible_to<Interval>;
};

/// Formats whose blocks share a scale. Their parameters are those of the tensor, and say what a block shares
/// whose largest finite magnitude is `max`, and the code that this is stored as.
template <class F>
concept BlockFormat = F::Parameters::kByBlocks &&
    requires(const F format, const typename F::Parameters& parameters, float max) {
  { parameters.entry(max) } -> std::convertible_to<BlockEntry>;
  { format.blocks() } -> std::same_as<BlockSize>;
  /// Bits stored for each block, at most 8.
  { format.shared_bits() } -> std::same_as<int>;
};

/// What a format is to the rest of detent, beside its `fields`.
template <class F>
concept NumberFormat = std::equality_comparable<F> &&
    (ElementFormat<F> || BlockFormat<F>)&&requires(const F format, const Group& group,
                                                   const std::string& where) {
  F::kName;
  F::kAliases;
  F::kHelp;
  /// Bits of one code.
  { format.bits() } -> std::same_as<double>;
  /// Whether the format itself asks for groups that are channels.
  { format.groups_are_channels() } -> std::same_as<bool>;
  /// Why granularity = "channel" makes no sense, or nullptr.
  { format.channel_conflict() } -> std::same_as<const char*>;
  /// Checks relations between fields; throws Error.
  format.validate(where);
  /// What format.h says of representable_values.
  { format.values(where) } -> std::same_as<std::vector<float>>;
  /// Everything the kernel needs to round the elements of `group`.
  { format.parameters(group, uint64_t{}) } -> std::same_as<typename F::Parameters>;
};

/// A format whose values are integer codes times one scale, so that the scale can be learned.
template <class F>
concept ScaledFormat = NumberFormat<F> && requires(const F format) {
  /// One, or one a channel; empty where it depends on the data.
  { format.given_scale() } -> std::same_as<std::vector<float>>;
  { format.with_unit_scale() } -> std::same_as<F>;
  /// The largest value with scale 1.
  { format.largest_code() } -> std::same_as<double>;
};

/// A format with parameters that make it hold given ranges, the clipping ranges of calibration: one, or one a
/// channel where the format has parameters for each; else it holds them all.
template <class F>
concept RangedFormat = NumberFormat<F> && requires(const F format, std::span<const Interval> ranges) {
  { F::kRangePerChannel } -> std::convertible_to<bool>;
  { format.covering(ranges, ScaleForm::kFloat) } -> std::same_as<F>;
};

namespace format_detail {

/// Appends a vector of each P to the variant Result, unless it is there.
template <class Result, class... P>
struct Vectors;
template <class... Known>
struct Vectors<std::variant<Known...>> {
  using type = std::variant<Known...>;
};
template <class... Known, class P, class... Rest>
struct Vectors<std::variant<Known...>, P, Rest...>
    : std::conditional_t<(std::is_same_v<Known, std::vector<P>> || ...),
                         Vectors<std::variant<Known...>, Rest...>,
                         Vectors<std::variant<Known..., std::vector<P>>, Rest...>> {};

template <class Variant>
struct PerGroup;
template <NumberFormat... F>
struct PerGroup<std::variant<F...>> {
  using type = typename Vectors<std::variant<>, typename F::Parameters...>::type;
};

}  // namespace format_detail

/// The parameters of all groups of a tensor, all of the same format. Formats may share a type, hence a
/// kernel.
using GroupParameters = format_detail::PerGroup<Format>::type;

}  // namespace detent
