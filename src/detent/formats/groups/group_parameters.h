#pragma once

#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/tensor.h"
#include "detent/formats/blocks/block_layout.h"
#include "detent/formats/groups/group.h"
#include "detent/formats/quant_spec.h"

namespace detent {

/// The groups into which `spec` cuts a tensor of `shape`. Throws Error on an axis that the shape does not
/// have.
Grouping make_grouping(const QuantSpec& spec, const Shape& shape);

/// The blocks of such a tensor, for block formats. Throws Error on a block_axis that the shape does
/// not have.
std::optional<BlockLayout> block_layout(const QuantSpec& spec, const Shape& shape);

/// The one place that derives parameters from data: for each group of `input` (float32, not empty), the
/// kernel's parameters. Throws Error, naming the channel, if the format cannot hold the data.
GroupParameters derive_parameters(const QuantSpec& spec, const Tensor& input, const Grouping& grouping,
                                  uint64_t seed);

/// Streams stored beside the codes for the groups of a format.
std::vector<ParameterStream> parameter_streams(const Format& format);

/// Calls visit(ElementGroups<P>, ElementKernels<P>) with the parameters of an element format's groups, of
/// type P.
template <class Visit>
void with_element_kernels(const GroupParameters& parameters, const Grouping& grouping, const Visit& visit) {
  std::visit(
      [&]<class P>(const std::vector<P>& groups) {
        if constexpr (!BlockScaleRule<P>) {
          const std::span<const P> all(groups);
          visit(ElementGroups<P>{all, grouping, LaneTable(all, grouping)}, P::kernels());
        } else {
          DETENT_CHECK(false, "the kernels of elements, asked for blocks");
        }
      },
      parameters);
}

/// Codes of `count` elements of one group, and back.
void encode_elements(const GroupParameters& parameters, const float* values, uint32_t* codes, int64_t count);
void decode_elements(const GroupParameters& parameters, const uint32_t* codes, float* values, int64_t count);

}  // namespace detent
