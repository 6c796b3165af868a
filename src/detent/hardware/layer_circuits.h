#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/formats/quant_spec.h"
#include "detent/graph/graph.h"
#include "detent/graph/table_layer.h"
#include "detent/hardware/circuit.h"
#include "detent/inference/node_form.h"

namespace detent {

/// `value` counted in steps, where it is a multiple.
std::optional<int64_t> steps_of(float value, float step);

/// The largest step that all of the values are multiples of: the least of their magnitudes, which formats of
/// a few values have.
std::optional<float> step_of(std::span<const float> values);

/// The values that a format has whatever the data; none where they depend on these or are too many.
std::vector<float> fixed_values(const QuantSpec& rounding);

/// The affine format that rounds every number as `rounding` does, if there is one: the values are all
/// multiples k * scale of a range, and each number goes to the nearest. Proved on both sides of every step.
std::optional<QuantSpec> affine_equal(const QuantSpec& rounding);

/// The network with affine formats of given scales instead of equal formats (fixed point), and for weights
/// whose values are multiples of a step (ternary, binary). Integer execution takes it. `notes` gets a line
/// for each layer whose bias is no multiple of its accumulators' unit, and is rounded to one.
Graph integer_graph(const Graph& graph, std::vector<std::string>& notes);

/// Weighted sums whose inputs have a list of a few values that no affine format has, as signs: a product of
/// an input and a weight is then a table of one input. Of signs it is an XNOR, and the sum counts them.

/// Whether the node is such a sum, its weights multiples of one step.
bool has_product_tables(const Node& node);

/// Makes a layer of tables of it, `lut` or `lut_conv1d` or `lut_conv2d`: its results are multiples of the
/// inputs' step times the weights'. Returns whether that changed the bias.
bool make_product_tables(Node& node);

/// Why a node whose input has such a list cannot be one; "" for other nodes.
std::string why_no_product_tables(const Node& node);

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

inline WireRange range_of(const CodeType& type) { return {type.low, type.high}; }
/// The least range that holds both.
WireRange hull(const WireRange& a, const WireRange& b);

/// Sums or differences of the elements of two inputs of `count` elements each. Throws Error where integers
/// cannot add at these scales.
SumBody pair_body(const PairForm& form, const Node& node, int64_t count);

/// Means over windows, all of one size.
SumBody average_body(const AverageForm& form, const Node& node, const Shape& input);

/// Adds the neurons of a layer of truth tables, at each window.
void add_neurons(const TableLayerView& view, const std::vector<std::vector<int32_t>>& windows,
                 bool channels_last, LookupBody& body);

/// The same as truth tables, where codes of few bits become one of few codes, such as signs: comparisons
/// would not be counted.
std::optional<LookupBody> tables_of(const RequantizeBody& body, const WireRange& codes);

}  // namespace detent
