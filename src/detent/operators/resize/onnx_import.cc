#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

/// Exporters write an empty list for one that is not given.
bool is_list_given(const NodeImport& node, size_t index) {
  return node.has_input(index) && node.type(index).shape != Shape{0};
}

/// An input that lists numbers: a constant list where its elements are known.
NodeInput numbers(NodeImport& node, size_t index) {
  const Tensor* constant = node.constant(index);
  if (constant == nullptr || constant->rank() != 1) return node.input(index);
  const Tensor elements = to_dtype(*constant, DType::kFloat64);
  const auto list = elements.values<double>();
  return NodeInput::of_constant(Value(List(list.begin(), list.end())));
}

NodeInput numbers(const std::vector<double>& values) {
  return NodeInput::of_constant(Value(List(values.begin(), values.end())));
}

/// As Upsample and the first Resize have it.
Table old_attributes(const NodeImport& node) {
  const std::string mode = node.text("mode", "nearest");
  return {{"mode", mode == "bilinear" || mode == "trilinear" ? "linear" : mode},
          {"coordinates", "asymmetric"},
          {"nearest", "simple"}};
}

/// Factors: two attributes before opset 7, one before opset 9, then an input.
NodeInput upsample_scales(NodeImport& node) {
  constexpr int64_t kScalesAreList = 7;
  constexpr int64_t kScalesAreInput = 9;
  if (node.opset() >= kScalesAreInput) return numbers(node, 1);
  if (node.opset() >= kScalesAreList) return numbers(node.numbers("scales"));
  return numbers({1, 1, node.number("height_scale", 1), node.number("width_scale", 1)});
}

void convert_upsample(NodeImport& node) {
  const NodeInput scales = upsample_scales(node);
  node.set_output(0, node.add("resize", {node.input(0), NodeInput::absent(), scales}, old_attributes(node)));
}

Table resize_attributes(const NodeImport& node) {
  Table attributes = {{"mode", node.text("mode", "nearest")},
                      {"coordinates", node.text("coordinate_transformation_mode", "half_pixel")},
                      {"nearest", node.text("nearest_mode", "round_prefer_floor")},
                      {"aspect_ratio", node.text("keep_aspect_ratio_policy", "stretch")},
                      {"cubic_coeff_a", node.number("cubic_coeff_a", -0.75)},
                      {"exclude_outside", node.integer("exclude_outside", 0) != 0},
                      {"extrapolation_value", node.number("extrapolation_value", 0)},
                      {"antialias", node.integer("antialias", 0) != 0}};
  if (node.has_attribute("axes")) attributes["dims"] = Value(node.integers("axes", {}));
  return attributes;
}

void convert_resize(NodeImport& node) {
  constexpr int64_t kFirst = 10;
  if (node.opset() <= kFirst) {
    node.set_output(
        0, node.add("resize", {node.input(0), NodeInput::absent(), numbers(node, 1)}, old_attributes(node)));
    return;
  }
  std::vector<NodeInput> inputs = {node.input(0), NodeInput::absent(), NodeInput::absent(),
                                   NodeInput::absent()};
  const Table attributes = resize_attributes(node);
  const bool crops = *attributes.find("coordinates")->get_if<std::string>() == "tf_crop_and_resize";
  if (crops && is_list_given(node, 1)) inputs[1] = numbers(node, 1);
  if (is_list_given(node, 2)) inputs[2] = numbers(node, 2);
  if (is_list_given(node, 3)) inputs[3] = node.list(3);
  if (inputs[2].is_absent() && inputs[3].is_absent()) fail("neither scales nor sizes are given");
  node.set_output(0, node.add("resize", std::move(inputs), attributes));
}

}  // namespace

OnnxConverterList resize_converters() { return {{"Resize", convert_resize}, {"Upsample", convert_upsample}}; }

}  // namespace detent
