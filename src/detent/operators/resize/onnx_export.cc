#include <algorithm>

#include "detent/core/error.h"
#include "detent/operators/onnx_export.h"

namespace detent {
namespace {

constexpr int64_t kAxesSince = 18;
constexpr int64_t kSymmetricSince = 19;

/// A constant list of numbers as float32; "" where there is none.
std::string numbers(NodeExport& node, size_t index) {
  if (!node.has_input(index)) return "";
  const NodeInput& input = node.node().inputs[index];
  const auto* list = input.is_constant() ? input.constant.get_if<List>() : nullptr;
  if (list == nullptr) return node.input(index);
  std::vector<float> values;
  double scratch = 0;
  for (const Value& element : *list) values.push_back(static_cast<float>(*element.number(scratch)));
  return node.constant(Tensor::from({std::ssize(values)}, values), index == 1 ? "roi" : "scales");
}

/// "simple" takes the next element where a dimension shrinks and the one before elsewhere: one of the two for
/// all dimensions whose sizes change.
std::string nearest_mode(const NodeExport& node) {
  const std::string& mode = node.choice("nearest");
  if (mode != "simple" || node.choice("mode") != "nearest") return mode == "simple" ? "floor" : mode;
  bool grows = false;
  bool shrinks = false;
  for (size_t d = 0; d < node.rank(0); ++d) {
    const int64_t from = node.type(0).shape[d];
    const int64_t to = node.result_type().shape[d];
    grows = grows || to > from;
    shrinks = shrinks || to < from;
  }
  if (grows && shrinks) node.refuse("dimensions that shrink and others that grow, the nearest \"simple\"");
  return shrinks ? "ceil" : "floor";
}

void export_resize(NodeExport& node) {
  const std::string& mode = node.choice("mode");
  const std::string& coordinates = node.choice("coordinates");
  if (coordinates == "half_pixel_symmetric") node.need_opset(kSymmetricSince, "half_pixel_symmetric");
  Table attributes = {{"mode", mode},
                      {"coordinate_transformation_mode", coordinates},
                      {"nearest_mode", nearest_mode(node)},
                      {"cubic_coeff_a", node.number("cubic_coeff_a")},
                      {"exclude_outside", node.flag("exclude_outside")},
                      {"extrapolation_value", node.number("extrapolation_value")}};
  if (node.flag("antialias")) {
    node.need_opset(kAxesSince, "antialias");
    attributes["antialias"] = 1;
  }
  if (node.choice("aspect_ratio") != "stretch") {
    node.need_opset(kAxesSince, "an aspect ratio that stays");
    attributes["keep_aspect_ratio_policy"] = node.choice("aspect_ratio");
  }
  if (!node.node().attributes.find("dims")->is_na()) {
    node.need_opset(kAxesSince, "a list of dimensions");
    attributes["axes"] = Value(node.integers("dims"));
  }
  node.emit("Resize",
            {node.input(0), numbers(node, 1), numbers(node, 2), node.has_input(3) ? node.list(3) : ""},
            std::move(attributes));
}

}  // namespace

OnnxExporterList resize_exporters() { return {{"resize", export_resize}}; }

}  // namespace detent
