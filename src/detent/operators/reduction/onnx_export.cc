#include "detent/core/error.h"
#include "detent/operators/onnx_export.h"

namespace detent {
namespace {

constexpr int64_t kSumAxesAreInputSince = 13;
constexpr int64_t kReductionAxesAreInputSince = 18;

/// The axes are an attribute first, then an input.
template <const char* kName>
void export_reduction(NodeExport& node) {
  const bool is_sum = std::string_view(kName) == "ReduceSum";
  const bool is_input = node.opset() >= (is_sum ? kSumAxesAreInputSince : kReductionAxesAreInputSince);
  Table attributes = {{"keepdims", node.flag("keepdim")}};
  OnnxValues inputs = {node.input(0)};
  const auto axes = node.has_input(1) ? node.integers(1) : std::nullopt;
  const bool is_over_all = axes && axes->empty();
  if (node.has_input(1) && !is_over_all) {
    if (is_input) {
      inputs.push_back(node.list(1));
    } else {
      if (!axes)
        node.refuse(fmt::format("axes that are computed need opset {}", kReductionAxesAreInputSince));
      attributes["axes"] = Value(*axes);
    }
  }
  node.emit(kName, std::move(inputs), std::move(attributes));
}

constexpr char kReduceSum[] = "ReduceSum";
constexpr char kReduceMean[] = "ReduceMean";
constexpr char kReduceProd[] = "ReduceProd";
constexpr char kReduceMax[] = "ReduceMax";
constexpr char kReduceMin[] = "ReduceMin";
constexpr char kReduceLogSumExp[] = "ReduceLogSumExp";

void export_cumsum(NodeExport& node) {
  node.emit("CumSum", {node.input(0), node.scalar(1)},
            {{"exclusive", node.flag("exclusive")}, {"reverse", node.flag("reverse")}});
}

void export_top_k(NodeExport& node) {
  node.emit(
      "TopK", {node.input(0), node.list(1)},
      {{"axis", node.integer("dim")}, {"largest", node.flag("largest")}, {"sorted", node.flag("sorted")}});
}

}  // namespace

OnnxExporterList reduction_exporters() {
  return {{"sum", export_reduction<kReduceSum>},
          {"mean", export_reduction<kReduceMean>},
          {"prod", export_reduction<kReduceProd>},
          {"amax", export_reduction<kReduceMax>},
          {"amin", export_reduction<kReduceMin>},
          {"logsumexp", export_reduction<kReduceLogSumExp>},
          {"cumsum", export_cumsum},
          {"topk", export_top_k}};
}

}  // namespace detent
