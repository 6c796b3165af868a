#include <cmath>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/passes/passes.h"
#include "detent/passes/transform/equalization_pairs.h"
#include "detent/passes/transform/graph_edits.h"

// Folds a batch_norm into the convolution or linear layer before it, as inference computes it:
//
//     y = (w * x + b - mean) / sqrt(var + eps) * gamma + beta = (w * s) * x + (b - mean) * s + beta
//
// with s = gamma / sqrt(var + eps) for each output channel (Jacob et al. 2018, arXiv:1712.05877,
// section 3.2), in double, rounded to float32 once. A layer that something else reads as well, or that is
// quantized already, keeps its batch_norm, and the report says why.

namespace detent {
namespace {

struct FuseOptions {
  bool check = true;
  double tolerance = 1e-4;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("check", self.check, "run calibration samples before and after and compare the outputs");
    visit("tolerance", self.tolerance, "largest difference, relative to the largest output", Between{0, 1});
  }
};

/// Why the layer cannot take up the norm that follows it; "" when it can.
std::string obstacle(const Node& layer, const Node& norm, size_t layer_rank, size_t readers) {
  if (!is_weighted_sum(layer)) {
    return fmt::format("{} is no convolution or linear layer", layer.name);
  }
  // In a tensor [N, L, C] the norm scales L, a linear layer C.
  if (channel_axis(layer, layer_rank) != channel_axis(norm, layer_rank)) {
    return fmt::format("{} is not of rank 2", layer.name);
  }
  if (readers > 1) return fmt::format("{} has other readers", layer.name);
  if (!layer.quantization.empty()) return fmt::format("{} is quantized", layer.name);
  for (const auto& [operand, spec] : norm.quantization) {
    if (operand != "data_out_0") return fmt::format("its operand {} is quantized", operand);
  }
  return "";
}

/// The norm as y = x * scale + shift, per channel.
struct ChannelMap {
  std::vector<double> scale;
  std::vector<double> shift;
};

ChannelMap channel_map(const Node& norm) {
  const auto value = [&](const char* name, size_t channel, double absent) {
    const Parameter* parameter = norm.find_parameter(name);
    return parameter == nullptr ? absent : static_cast<double>(parameter->tensor.values<float>()[channel]);
  };
  const double eps = number_attribute(norm, "eps");
  ChannelMap map;
  for (size_t c = 0; c < norm.find_parameter("running_var")->tensor.values<float>().size(); ++c) {
    map.scale.push_back(value("weight", c, 1) / std::sqrt(value("running_var", c, 0) + eps));
    map.shift.push_back(value("bias", c, 0) - value("running_mean", c, 0) * map.scale.back());
  }
  return map;
}

Tensor scaled_weight(const Node& layer, const ChannelMap& map) {
  Tensor weight = layer.find_parameter("weight")->tensor.clone();
  const std::span<float> values = weight.values<float>();
  const WeightChannels channels(layer);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<double>(values[i]) *
                                   map.scale[static_cast<size_t>(channels.output(static_cast<int64_t>(i)))]);
  }
  return weight;
}

Tensor moved_bias(const Node& layer, const ChannelMap& map) {
  Tensor bias(DType::kFloat32, {static_cast<int64_t>(map.scale.size())});
  const Parameter* old = layer.find_parameter("bias");
  for (size_t c = 0; c < map.scale.size(); ++c) {
    const double before = old == nullptr ? 0 : static_cast<double>(old->tensor.values<float>()[c]);
    bias.values<float>()[c] = static_cast<float>(before * map.scale[c] + map.shift[c]);
  }
  return bias;
}

void fold(Node& layer, const Node& norm) {
  const ChannelMap map = channel_map(norm);
  Tensor bias = moved_bias(layer, map);
  layer.find_parameter("weight")->tensor = scaled_weight(layer, map);
  if (Parameter* old = layer.find_parameter("bias")) {
    old->tensor = std::move(bias);
  } else {
    layer.parameters.emplace_back("bias", Parameter{std::move(bias), true});
  }
  layer.quantization = norm.quantization;
  layer.statistics.results = norm.statistics.results;
  for (const char* changed : {"weight", "bias"}) layer.statistics.args.erase(changed);
}

void run_fuse(Graph& graph, const FuseOptions& options, PassContext& context) {
  const Graph before = graph;
  const ValueTypes values = infer_shapes(graph);
  const std::map<std::string, size_t> readers = reader_counts(graph);
  std::map<std::string, std::string> replaced;  // norm -> layer
  size_t count = 0;
  for (const Node& norm : graph.nodes()) {
    if (!is_batch_norm(norm)) continue;
    ++count;
    const std::string& source = norm.inputs[0].node;
    const auto fused = replaced.find(source);  // a norm behind a norm
    Node& layer = graph.node(fused == replaced.end() ? source : fused->second);
    const std::string reason = obstacle(layer, norm, values.at(source).shape.size(), readers.at(source));
    if (reason.empty()) {
      fold(layer, norm);
      replaced[norm.name] = layer.name;
    } else {
      context.report(fmt::format("fuse_batch_norm: {} stays: {}\n", norm.name, reason));
    }
  }
  redirect_readers(graph, replaced);
  graph.erase_if([&](const Node& node) { return replaced.contains(node.name); });
  verify(graph);
  std::string checked;
  if (options.check && !replaced.empty()) {
    const auto [difference, samples] = check_same_outputs(before, graph, options.tolerance, context);
    checked = fmt::format("; outputs differ by at most {:.2g} ({} samples)", difference, samples);
  }
  context.report(fmt::format("fuse_batch_norm: {} of {} folded{}\n", replaced.size(), count, checked));
}

}  // namespace

PassInfo fuse_batch_norm_pass() {
  return make_pass("fuse_batch_norm", PassKind::kTransform,
                   "fold each batch_norm into the convolution or linear layer before it", run_fuse,
                   PassStage::kBeforeQuantizing);
}

}  // namespace detent
