#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "detent/core/fields.h"
#include "detent/core/value.h"
#include "detent/formats/blocks/block_fp.h"
#include "detent/formats/blocks/block_log.h"
#include "detent/formats/blocks/block_minifloat.h"
#include "detent/formats/blocks/mx.h"
#include "detent/formats/blocks/nvfp4.h"
#include "detent/formats/elements/affine.h"
#include "detent/formats/elements/binary.h"
#include "detent/formats/elements/binary_residual.h"
#include "detent/formats/elements/codebook.h"
#include "detent/formats/elements/fixed.h"
#include "detent/formats/elements/log.h"
#include "detent/formats/elements/minifloat.h"
#include "detent/formats/elements/scaled.h"
#include "detent/formats/elements/ternary.h"

namespace detent {

namespace format_detail {

template <class... Variants>
struct Concatenated;
template <class... First, class... Second, class... Third>
struct Concatenated<std::variant<First...>, std::variant<Second...>, std::variant<Third...>> {
  using type = std::variant<First..., Second..., Third...>;
};

template <class Rows>
struct Presets;
template <size_t... kRow>
struct Presets<std::index_sequence<kRow...>> {
  using type = std::variant<MinifloatPreset<kRow>...>;
};

}  // namespace format_detail

/// Formats that round elements one by one, and formats whose blocks share a scale. To add one: its include,
/// and its name here. Minifloat presets are in elements/minifloat.h.
using ElementFormats = std::variant<Fixed, Ternary, Binary, Affine, MinifloatIeee, MinifloatDenorm, Log,
                                    BinaryResidual, Codebook, Scaled>;
using MinifloatPresets =
    format_detail::Presets<std::make_index_sequence<std::size(kMinifloatStandards)>>::type;
using BlockFormats = std::variant<BlockFp, BlockMinifloat, BlockLog, Mx, Nvfp4>;

using AnyFormat = format_detail::Concatenated<ElementFormats, MinifloatPresets, BlockFormats>::type;

/// Every number format: a variant whose special members are compiled once, since most units copy specs.
class Format : public AnyFormat {
 public:
  Format();
  Format(const Format&);
  Format(Format&&) noexcept;
  Format& operator=(const Format&);
  Format& operator=(Format&&) noexcept;
  ~Format();

  template <class F>
  requires NumberFormat<std::remove_cvref_t<F>> Format(F&& format)
      : AnyFormat(std::in_place_type<std::remove_cvref_t<F>>, std::forward<F>(format)) {}

  bool operator==(const Format& other) const;
};

/// A format of integer codes times one scale, so that the scale can be learned.
template <class F>
concept ScaledFormat = NumberFormat<F> && requires(const F format) {
  /// One, or one per channel; empty if it depends on the data.
  { format.given_scale() } -> std::same_as<std::vector<float>>;
  { format.with_unit_scale() } -> std::same_as<F>;
  /// The largest value with scale 1.
  { format.largest_code() } -> std::same_as<double>;
};

/// A format with parameters that cover given clipping ranges: one, or one per channel if the format has
/// parameters per channel; else it covers them all.
template <class F>
concept RangedFormat = NumberFormat<F> && requires(const F format, std::span<const Interval> ranges) {
  { F::kRangePerChannel } -> std::convertible_to<bool>;
  { format.qparams_from_range(ranges, ScaleForm::kFloat) } -> std::same_as<F>;
};

namespace format_detail {

/// Appends a vector of each P to the variant Result, unless present.
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

template <class F>
concept EitherFormat = ElementFormat<F> || BlockFormat<F>;

template <class Variant>
struct PerGroup;
template <EitherFormat... F>
struct PerGroup<std::variant<F...>> {
  using type = typename Vectors<std::variant<>, typename F::Parameters...>::type;
};

}  // namespace format_detail

/// The parameters of all groups of a tensor, of one format. Formats may share a type, hence a kernel.
using GroupParameters = format_detail::PerGroup<AnyFormat>::type;

/// Name (as configuration files spell it) of the alternative that `format` holds.
std::string_view format_name(const Format& format);
/// Canonical names in the order of Format, aliases ("integer" for "fixed"), and common ones of
/// formats/named_formats.h ("int8").
std::vector<std::string> format_names();
std::vector<std::pair<std::string, std::string>> format_aliases();

/// "name" or "name:key=value,key=value". Throws Error on unknown names and keys, invalid values, and names
/// that imply more than a format ("int4_g128": parse_quant_spec_text).
Format parse_format(std::string_view text);
/// The inverse: the name and the keys that differ from their defaults.
std::string format_text(const Format& format);

/// The default-constructed format of that name or alias, or what formats/named_formats.h says of it. Throws
/// Error with the nearest known name.
Format make_format(std::string_view name, const std::string& where);

/// Throws Error, beginning with `where`, on fields out of range or contradictory.
void validate(const Format& format, const std::string& where);

/// Bits of one code, without block and group scales.
double bits_per_value(const Format& format);

/// Block size of block formats; nullopt for others.
std::optional<BlockSize> block_size(const Format& format);

/// The format with parameters that hold `ranges` without saturating: one for the tensor, or one per channel;
/// a format without parameters per channel holds them all. Throws Error, beginning with `where`, on a format
/// without such parameters.
Format qparams_from_range(const Format& format, std::span<const Interval> ranges, ScaleForm form,
                          const std::string& where);
bool has_range_per_channel(const Format& format);
/// Names of the formats accepted by `qparams_from_range`.
std::vector<std::string> ranged_format_names();

/// Every value the format can hold, ascending, without duplicates, for formats of at most 16 bits whose
/// values do not depend on data. Throws Error otherwise.
std::vector<float> representable_values(const Format& format);

}  // namespace detent
