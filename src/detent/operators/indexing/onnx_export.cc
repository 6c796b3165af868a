#include "detent/core/error.h"
#include "detent/operators/onnx_export.h"

namespace detent {
namespace {

void export_select(NodeExport& node) {
  const std::string index = node.number_of(node.integer("index"), DType::kInt64);
  node.emit("Gather", {node.input(0), index}, {{"axis", node.integer("dim")}});
}

/// A tensor of indices, or a number or list of them.
std::string indices(NodeExport& node, size_t index) {
  const NodeInput& input = node.node().inputs[index];
  if (!input.is_constant()) return node.input(index);
  return input.constant.is<int64_t>() ? node.scalar(index) : node.list(index);
}

template <const char* kName>
void export_along_dim(NodeExport& node) {
  node.emit(kName, {node.input(0), indices(node, 1)}, {{"axis", node.integer("dim")}});
}

constexpr char kGather[] = "Gather";
constexpr char kGatherElements[] = "GatherElements";

Table reduction_attribute(const NodeExport& node) {
  constexpr int64_t kSumsSince = 16;
  constexpr int64_t kExtremesSince = 18;
  const std::string& reduction = node.choice("reduction");
  if (reduction == "none") return {};
  const bool is_extreme = reduction == "max" || reduction == "min";
  node.need_opset(is_extreme ? kExtremesSince : kSumsSince, "a reduction");
  return {{"reduction", reduction}};
}

void export_scatter_elements(NodeExport& node) {
  Table attributes = reduction_attribute(node);
  attributes["axis"] = node.integer("dim");
  node.emit("ScatterElements", node.inputs(), std::move(attributes));
}

void export_scatter_nd(NodeExport& node) { node.emit("ScatterND", node.inputs(), reduction_attribute(node)); }

/// The values elsewhere and at the place: a tensor, or a list of two numbers.
void export_one_hot(NodeExport& node) {
  const NodeInput& given = node.node().inputs[2];
  const auto* list = given.is_constant() ? given.constant.get_if<List>() : nullptr;
  std::string values;
  if (list != nullptr && node.result_type().dtype == DType::kFloat32) {
    std::vector<float> numbers;
    double scratch = 0;
    for (const Value& element : *list) numbers.push_back(static_cast<float>(*element.number(scratch)));
    values = node.constant(Tensor::from({std::ssize(numbers)}, numbers), "values");
  } else {
    values = node.input(2);
  }
  if (node.rank(0) > 0)
    return node.emit("OneHot", {node.input(0), node.list(1), values}, {{"axis", node.integer("dim")}});
  // The operator takes no index without dimensions.
  const std::string index = node.add("Unsqueeze", {node.input(0), node.list_of({0})});
  const std::string row = node.add("OneHot", {index, node.list(1), values}, {{"axis", -1}});
  node.emit("Squeeze", {row, node.list_of({0})});
}

void export_trilu(NodeExport& node) {
  constexpr int64_t kSince = 14;
  node.need_opset(kSince, "Trilu");
  OnnxValues inputs = {node.input(0)};
  if (node.has_input(1)) inputs.push_back(node.scalar(1));
  node.emit("Trilu", std::move(inputs), {{"upper", node.flag("upper")}});
}

void export_suppression(NodeExport& node) {
  OnnxValues inputs = {node.input(0), node.input(1), node.input_as(2, DType::kInt64)};
  for (const size_t i : {size_t{3}, size_t{4}}) inputs.push_back(node.input_as(i, DType::kFloat32));
  node.emit("NonMaxSuppression", std::move(inputs), {{"center_point_box", node.flag("center_point_box")}});
}

void export_region_alignment(NodeExport& node) {
  constexpr int64_t kHasHalfPixel = 16;
  const auto bins = node.integers("output_size", 2);
  Table attributes = {{"output_height", bins[0]},
                      {"output_width", bins[1]},
                      {"sampling_ratio", node.integer("sampling_ratio")},
                      {"spatial_scale", node.number("spatial_scale")},
                      {"mode", node.choice("reduction") == "mean" ? "avg" : "max"}};
  const bool half_pixel = node.flag("half_pixel");
  if (half_pixel) node.need_opset(kHasHalfPixel, "RoiAlign with half_pixel");
  if (node.opset() >= kHasHalfPixel)
    attributes["coordinate_transformation_mode"] = half_pixel ? "half_pixel" : "output_half_pixel";
  node.emit("RoiAlign", {node.input(0), node.input_as(1, DType::kFloat32), node.input_as(2, DType::kInt64)},
            std::move(attributes));
}

void export_grid_samples(NodeExport& node) {
  constexpr int64_t kSince = 16;
  constexpr int64_t kHasAnyRank = 20;
  const bool is_older = node.opset() < kHasAnyRank;
  node.need_opset(kSince, "GridSample");
  if (node.rank(0) != 4) node.need_opset(kHasAnyRank, "GridSample of other than two dimensions");
  const std::string& mode = node.choice("mode");
  const std::string older = mode == "linear" ? "bilinear" : mode == "cubic" ? "bicubic" : mode;
  node.emit("GridSample", {node.input(0), node.input_as(1, DType::kFloat32)},
            {{"mode", is_older ? older : mode},
             {"padding_mode", node.choice("padding_mode")},
             {"align_corners", node.flag("align_corners")}});
}

/// Whether the network trains is an input.
void export_inference_dropout(NodeExport& node) {
  node.emit("Dropout", {node.input(0), node.input_as(1, DType::kFloat32), node.input_as(2, DType::kBool)});
}

}  // namespace

OnnxExporterList indexing_exporters() {
  return {{"select", export_select},
          {"gather", export_along_dim<kGather>},
          {"gather_elements", export_along_dim<kGatherElements>},
          {"scatter_elements", export_scatter_elements},
          {"scatter_nd", export_scatter_nd},
          {"one_hot", export_one_hot},
          {"non_max_suppression", export_suppression},
          {"grid_sample", export_grid_samples},
          {"roi_align", export_region_alignment},
          {"inference_dropout", export_inference_dropout},
          {"trilu", export_trilu}};
}

}  // namespace detent
