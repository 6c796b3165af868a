#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "detent/onnx/node_import.h"

namespace detent {

/// Where a node has the scale and zero point of a value among its inputs.
struct QuantizedInput {
  size_t value;
  size_t scale;
  size_t zero_point;
};

/// Values of constant codes, and the format that has just these values; none of 32-bit codes.
struct RoundedConstant {
  Tensor values;
  std::optional<QuantSpec> spec;
};

// Scales and zero points that are constants make a quantizer of codes: nothing where they are computed, or
// where no format has such codes. Where there are several they lie along dimension `axis`, one for each
// position or, with a `block`, for each so many at each place of the other dimensions.

std::optional<RoundedConstant> rounded_constant(const NodeImport& node, const QuantizedInput& codes,
                                                int64_t axis, int64_t block = 0);
RoundedConstant rounded_constant(const Tensor& codes, std::vector<double> scale,
                                 std::vector<double> zero_point, int64_t axis, int64_t block = 0);
/// How codes of few bits have their scales, and the ends of the codes.
struct CodeBlocks {
  int64_t axis;
  int64_t block;
  std::pair<double, double> range;
};
RoundedConstant rounded_constant(const Tensor& codes, std::vector<double> scale,
                                 std::vector<double> zero_point, const CodeBlocks& blocks);
/// A tensor of the graph's own, rounded by a node; nothing for other nodes.
std::optional<RoundedConstant> rounded_constant(const Graph& graph, const Node& node);
/// The codes of a QuantizeLinear's input, perhaps of few bits of the type; nothing where that is not
/// constant.
std::optional<Tensor> constant_codes(const NodeImport& node, DType dtype, const NarrowType* narrow,
                                     int64_t axis, int64_t block);
/// Codes that a quantize_linear node gives of a tensor of the graph's own; nothing for other nodes.
std::optional<Tensor> constant_codes(const Graph& graph, const Node& node);
/// For codes that come from a QuantizeLinear with the same parameters (and perhaps a Clip, for fewer bits):
/// what was quantized, rounded.
std::optional<NodeInput> rounded_value(NodeImport& node, const QuantizedInput& codes, int64_t axis);
/// The format of 8-bit and 16-bit codes of one scale; `codes.value` is not asked for.
std::optional<QuantSpec> rounding_to_codes(const NodeImport& node, const QuantizedInput& codes, DType dtype);

/// Numbers that an operand holds, where they are known.
std::optional<std::vector<double>> known_numbers(const NodeImport& node, const NodeInput& operand);
std::optional<std::vector<double>> known_numbers(const Graph& graph, const NodeInput& operand);

/// The attribute of QONNX in capitals; of two names of rounding to the nearest ROUND.
std::string rounding_mode(const NodeImport& node, const char* otherwise);
/// Whole numbers in that mode, by operators of the network.
NodeInput rounded_to_whole(NodeImport& node, const NodeInput& x, const std::string& mode);

/// Floats as a type of few bits has them, by the node's attribute `saturate` (cast.cc).
NodeInput rounded_to(NodeImport& node, NodeInput x, const NarrowType& type);

/// The ends of the codes of 8, 16 and 32 bits.
std::pair<double, double> range_of_codes(DType dtype);
/// The attribute of QuantizeLinear and DequantizeLinear, counted from the front.
int64_t axis_of(const NodeImport& node);
/// The attribute of both: how many positions of the axis share a scale; 0 where the axis or tensor has one.
int64_t block_size_of(const NodeImport& node);
/// Whether a DequantizeLinear's result is rounded_constant or rounded_value.
bool became_rounding(NodeImport& node);

}  // namespace detent
