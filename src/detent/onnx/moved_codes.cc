#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>

#include "detent/core/convert.h"
#include "detent/kernels/linear_codes.h"
#include "detent/onnx/importer.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

constexpr std::string_view kMoving[] = {"DepthToSpace", "Expand",  "Flatten", "Gather",    "Identity",
                                        "MaxPool",      "Pad",     "Reshape", "Slice",     "SpaceToDepth",
                                        "Split",        "Squeeze", "Tile",    "Transpose", "Unsqueeze"};

bool is_nearest_resize(const onnx::NodeProto& node) {
  if (node.op_type() != "Resize") return false;
  const auto is_other = [](const onnx::AttributeProto& attribute) {
    const bool is_open = !attribute.ref_attr_name().empty();  // what the call of a function says
    return (attribute.name() == "mode" && (is_open || attribute.s() != "nearest")) ||
           (attribute.name() == "coordinate_transformation_mode" &&
            (is_open || attribute.s() == "tf_crop_and_resize"));
  };
  return std::ranges::none_of(node.attribute(), is_other);
}

/// Whether a node gives codes of one scale, which is known, from floats.
bool gives_codes(const Node& node) {
  return node.op == "quantize_linear" && node.inputs[1].is_constant() &&
         (node.inputs.size() < 3 || node.inputs[2].is_constant()) && !node.inputs[0].is_constant();
}

/// The value that a code of a quantize_linear stands for.
float value_of_code(int64_t code, const Node& quantize) {
  double scale = 0;
  double zero = 0;
  const double* const given = quantize.inputs.size() < 3 ? nullptr : quantize.inputs[2].constant.number(zero);
  return value_of(code, static_cast<float>(*quantize.inputs[1].constant.number(scale)),
                  given == nullptr ? 0 : static_cast<int64_t>(*given));
}

}  // namespace

bool moves_first_input(const onnx::NodeProto& node) {
  if (node.domain() == "com.microsoft" && node.op_type() == "NhwcMaxPool") return true;
  if (!node.domain().empty() && node.domain() != "ai.onnx") return false;
  if (node.op_type() == "MaxPool" && node.output_size() > 1) return false;  // places too
  return is_nearest_resize(node) || std::ranges::find(kMoving, node.op_type()) != std::end(kMoving);
}

bool OnnxImporter::fill_with_value(const onnx::NodeProto& pad, const Node& quantize, ImportScope& inner) {
  constexpr int64_t kIsInput = 11;
  if (opset(pad.domain()) < kIsInput) return false;
  const std::string name = pad.input_size() > 2 ? pad.input(2) : "";
  if (name.empty()) return value_of_code(0, quantize) == 0;
  const ImportedValue& code = find(name, *inner.outer);
  if (!code.constant || code.constant->numel() != 1) return false;
  const float value = value_of_code(to_dtype(*code.constant, DType::kInt64).values<int64_t>()[0], quantize);
  inner.values[name] =
      &own({.source = std::nullopt, .constant = Tensor::from<float>({}, std::vector{value})});
  return std::isfinite(value);
}

bool OnnxImporter::convert_as_values(const onnx::NodeProto& node, ImportScope& scope) {
  if (node.input_size() == 0 || node.input(0).empty() || !moves_first_input(node)) return false;
  const ImportedValue& input = find(node.input(0), scope);
  if (!input.source || input.source->is_constant() || !gives_codes(graph_.node(input.source->node)))
    return false;
  const Node quantize = graph_.node(input.source->node);
  if (types(quantize.inputs[0]).first.dtype != DType::kFloat32) return false;
  ImportScope inner{.outer = &scope, .prefix = scope.prefix, .attributes = scope.attributes};
  inner.values[node.input(0)] = &own({.source = quantize.inputs[0], .constant = std::nullopt});
  if (node.op_type() == "Pad" && !fill_with_value(node, quantize, inner)) return false;
  scope_ = &inner;
  NodeImport import(*this, node, opset(node.domain()));
  find_onnx_converter(node.domain(), node.op_type())(import);
  scope_ = &scope;
  for (const std::string& output : node.output()) {
    const auto moved = inner.values.find(output);
    if (output.empty() || moved == inner.values.end()) continue;
    Node codes{.name = unique_name(quantize.name), .op = quantize.op, .inputs = quantize.inputs};
    codes.inputs[0] = operand(*moved->second, output);
    codes.attributes = quantize.attributes;
    set_output(output, {.source = add(std::move(codes)), .constant = std::nullopt});
  }
  return true;
}

}  // namespace detent
