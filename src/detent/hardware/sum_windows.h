#pragma once

#include "detent/graph/graph.h"
#include "detent/hardware/circuit.h"
#include "detent/integer/node_form.h"

namespace detent {

/// Elements of a plane of an input [N, C, ...] that the taps of each window of a convolution read, as
/// [window][tap]; SumBody::kPadding outside. Stride, padding and dilation are the node's attributes.
std::vector<std::vector<int32_t>> plane_windows(const Node& node, const Shape& input, const Shape& kernel,
                                                const Shape& output);

/// The accumulators of a linear layer or a convolution, not yet requantized. Shapes are for a batch of one.
/// Throws Error where there is no such circuit.
SumBody sum_body(const SumForm& form, const Node& node, const Shape& input, const Shape& output);

/// Adjacent windows of this many elements: those of a linear layer.
std::vector<std::vector<int32_t>> consecutive_windows(int64_t positions, int64_t taps);

/// The windows of one plane over all planes of an input: taps of the first channel, then of the next.
std::vector<std::vector<int32_t>> windows_of_all_channels(const std::vector<std::vector<int32_t>>& plane,
                                                          const Shape& input);

/// A channel with these terms, for codes of a type.
SumBody::Channel sum_channel(std::vector<SumBody::Term> terms, int64_t bias, const CodeType& input);

/// Elements of an input [1, C, ...] of each window of a pooling, in the order of its result.
std::vector<std::vector<int32_t>> pooling_elements(const Node& node, const Shape& input);

}  // namespace detent
