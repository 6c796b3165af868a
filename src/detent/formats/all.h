#pragma once

#include <concepts>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "detent/formats/affine.h"
#include "detent/formats/binary.h"
#include "detent/formats/binary_residual.h"
#include "detent/formats/codebook.h"
#include "detent/formats/fixed.h"
#include "detent/formats/log.h"
#include "detent/formats/minifloat.h"
#include "detent/formats/minifloat_denorm.h"
#include "detent/formats/minifloat_presets.h"
#include "detent/formats/ternary.h"

namespace detent {

/// Every number format. To add one: its header and its line here and in the list below; its kernel and a line
/// in all-inl.h.
using Format = std::variant<Fixed, Ternary, Binary, Affine, MinifloatIeee, MinifloatDenorm, Log,
                            BinaryResidual, Codebook, Fp8E4M3Fn, Fp8E5M2, Fp8E4M3Fnuz, Fp8E5M2Fnuz, Fp6E3M2,
                            Fp6E2M3, Fp4E2M1, Fp16, Bf16, Tf32>;

/// What a format is to the rest of detent, beside its `fields`.
template <class F>
concept NumberFormat = std::equality_comparable<F> &&
    requires(const F format, const Group& group, const std::string& where,
             const typename F::Parameters& derived) {
  F::kName;
  F::kAliases;
  F::kHelp;
  /// Bits of one code.
  { format.bits() } -> std::same_as<double>;
  /// float32 scales stored for each group.
  { format.scales_per_group() } -> std::same_as<int>;
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
  /// The inputs that do not saturate.
  { derived.unsaturated } -> std::convertible_to<Interval>;
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
