#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "detent/formats/quant_spec.h"
#include "detent/graph/graph.h"

namespace detent {

/// How a file in ONNX's format says what operands are rounded to: not at all, by pairs of QuantizeLinear and
/// DequantizeLinear, by the nodes Quant and BipolarQuant of the domain qonnx.custom_op.general, by
/// operators that take and give integers, with these pairs around what has none, or by these pairs but for
/// layers whose weights have a scale a group, which are MatMulNBits and GatherBlockQuantized of
/// com.microsoft.
enum class OnnxStyle { kFloat, kQdq, kQonnx, kQOperator, kMatMulNBits };
constexpr std::array<const char*, 5> enum_names(OnnxStyle) {
  return {"float", "qdq", "qonnx", "qoperator", "matmulnbits"};
}

/// Whether weights and biases are written as integers.
constexpr bool has_integers(OnnxStyle style) {
  return style == OnnxStyle::kQdq || style == OnnxStyle::kQOperator || style == OnnxStyle::kMatMulNBits;
}

struct OnnxExportOptions {
  OnnxStyle style = OnnxStyle::kFloat;
  /// Version of the operator set, 13 to 25; nothing: 17, or what operators need (18 reductions while
  /// scattering) and formats: 19 floats of 8 bits, 21 integers of 16 and scales of groups, 23 floats of 4
  /// bits, 24 scales that are powers of two. From 23 on, attention of floats is one operator.
  std::optional<int64_t> opset = std::nullopt;
  /// With more bytes of weights than this, they lie in a file beside the model, called as the model with a
  /// digest of them followed by ".data"; 0: always. A file in ONNX's format has at most 2 GiB.
  uint64_t most_bytes_within = 1'900'000'000;
  /// QDQ weights of 8 bits and fewer are uint8 with a zero point of 128 instead of int8. ONNX Runtime's
  /// products of uint8 and int8 saturate in 16 bits on x86 processors without VNNI; those of two uint8 do
  /// not.
  bool unsigned_weights = false;
};

/// Why no model of this style can hold weights, or other operands, of this spec, whose scale may still be
/// unknown; "" where one can.
std::string style_obstacle(OnnxStyle style, const QuantSpec& spec, bool is_weight);

/// Writes the graph as a model in ONNX's format. Inputs and outputs are called as in the model that the graph
/// was imported from; named dimensions keep their names. Throws Error listing all nodes that cannot be
/// expressed, or whose formats the style cannot carry.
void export_onnx(const Graph& graph, const std::filesystem::path& path,
                 const OnnxExportOptions& options = {});

/// Throws the Error of export_onnx for formats and accumulators that the style cannot carry, before anything
/// is written.
void check_onnx_export(const Graph& graph, const std::filesystem::path& path,
                       const OnnxExportOptions& options = {});

}  // namespace detent
