#pragma once

#include <optional>
#include <span>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"

namespace detent {

// What rounds constants whose elements are moved. Each element keeps its scale and zero point, so where these
// lie in the result says whether there is one for the tensor, one a channel, or one a group.

/// For each element of a tensor of this shape the place of its scale among those that the spec gives: int32.
Tensor scale_places(const QuantSpec& spec, const Shape& shape);

/// The spec for a tensor whose elements have the scales at `places`, an int32 tensor of its shape. Groups may
/// be of `group_size` elements. Nothing where no spec says so.
std::optional<QuantSpec> rounding_at_places(const QuantSpec& spec, const Tensor& places,
                                            std::optional<int64_t> group_size);

/// The specs as one with the scales of all, in order; nothing where they differ in more than scales and zero
/// points.
std::optional<QuantSpec> joined_rounding(std::span<const QuantSpec> specs);

/// How many scales the spec gives; 0 where they follow from the data.
size_t scale_count(const QuantSpec& spec);

/// The spec for the same elements in another shape.
std::optional<QuantSpec> reshaped_rounding(const QuantSpec& spec, const Shape& from, const Shape& to);

}  // namespace detent
