#pragma once

#include <optional>

#include "detent/core/tensor.h"
#include "detent/formats/block_layout.h"
#include "detent/formats/group.h"
#include "detent/formats/quant_spec.h"

namespace detent {

/// The groups into which `spec` cuts a tensor of `shape`. Throws Error on an axis that the shape does not
/// have.
Grouping make_grouping(const QuantSpec& spec, const Shape& shape);

/// The blocks of such a tensor, for block formats. Throws Error on a block_axis that the shape does
/// not have.
std::optional<BlockLayout> block_layout(const QuantSpec& spec, const Shape& shape);

/// The one place where parameters come from data: for each group of `input` (float32, not empty), what the
/// format's kernel needs. Throws Error, naming the channel, where the format cannot hold the data.
GroupParameters derive_parameters(const QuantSpec& spec, const Tensor& input, const Grouping& grouping,
                                  uint64_t seed);

}  // namespace detent
