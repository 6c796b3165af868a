#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/core/tensor.h"
#include "detent/formats/elements/element_kernels.h"
#include "detent/formats/float_bits.h"
#include "detent/formats/groups/group.h"

namespace detent {

/// Scales that kernels divide by.
inline constexpr Between kAboveZero = {1e-45, std::numeric_limits<float>::max()};

/// Numbers needed for decoding beside the codes, `per_group` for each group. Each format maps its doubles to
/// them without loss.
struct ParameterStream {
  std::string name;  // "scales"
  DType dtype;       // float32, uint8 or int32
  int per_group = 1;
  Between allowed = {};  // decoding refuses other numbers, and what is not finite
};

inline int numbers_per_group(const std::vector<ParameterStream>& streams) {
  int count = 0;
  for (const ParameterStream& stream : streams) count += stream.per_group;
  return count;
}

/// Interface of a format, beside its `fields`.
template <class F>
concept NumberFormat = std::equality_comparable<F> && requires(const F format, const std::string& where) {
  F::kName;
  F::kAliases;
  F::kHelp;
  /// Bits of one code.
  { format.bits() } -> std::same_as<double>;
  /// Whether the format itself requires channel groups.
  { format.groups_are_channels() } -> std::same_as<bool>;
  /// Why granularity = "channel" is invalid, or nullptr.
  { format.channel_conflict() } -> std::same_as<const char*>;
  /// Checks relations between fields; throws Error.
  format.validate(where);
  /// As representable_values in format.h.
  { format.values(where) } -> std::same_as<std::vector<float>>;
};

/// An element format fully described by its keys.
template <class F>
concept FormatWithoutData = requires(const F format) {
  { format.parameters() } -> std::same_as<typename F::Parameters>;
};

/// An element format with parameters (scale, threshold) derived per group from the data. Parameters for
/// decoding are stored beside the codes.
template <class F>
concept FormatWithData = requires(const F format, const typename F::Parameters& parameters,
                                  const Group& group, double* numbers) {
  { format.parameters(group, uint64_t{}) } -> std::same_as<typename F::Parameters>;
  { format.streams() } -> std::same_as<std::vector<ParameterStream>>;
  /// Writes all streams' numbers of one group.
  format.store(parameters, numbers);
  /// The inverse, as far as decoding needs it.
  { format.stored_parameters(numbers) } -> std::same_as<typename F::Parameters>;
};

/// A format that rounds elements one by one. element_loops-inl.h describes its kernels.
template <class F>
concept ElementFormat = NumberFormat<F> &&
    (FormatWithoutData<F> || FormatWithData<F>)&&requires(const F format,
                                                          const typename F::Parameters& parameters) {
  { F::Parameters::kernels() } -> std::same_as<ElementKernels<typename F::Parameters>>;
  /// The inputs that do not saturate.
  { format.unsaturated(parameters) } -> std::same_as<Interval>;
  /// Whether there is a code that decodes to NaN.
  { F::kHasNan } -> std::convertible_to<bool>;
};

}  // namespace detent
