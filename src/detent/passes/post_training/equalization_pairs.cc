#include "detent/passes/post_training/equalization_pairs.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/passes/transform/graph_edits.h"

namespace detent {
namespace {

/// Follows a value back to the node that may be its producer.
class PairSearch {
 public:
  PairSearch(const Graph& graph, const std::function<bool(const Node&)>& may_produce)
      : graph_(graph),
        may_produce_(may_produce),
        shapes_(infer_shapes(graph)),
        readers_(reader_counts(graph)) {}

  /// "" when there is a pair, which then is `pair`; else why there is none.
  std::string find(const std::string& value, EqualizationPair& pair) const {
    for (const Node& node : graph_.nodes()) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i].node != value) continue;
        if (i > 0 || !is_weighted_sum(node)) return fmt::format("{} ({}) reads it, too", node.name, node.op);
        if (!node.quantization.empty()) return fmt::format("{} is quantized already", node.name);
        pair.sinks.push_back(node.name);
      }
    }
    return follow(graph_.node(value), pair);
  }

 private:
  std::string follow(const Node& last, EqualizationPair& pair) const {
    std::vector<const Node*> between;
    const Node* node = &last;
    for (; is_rectifier(*node) || is_view(*node) || trait<Pooling>(*node) != nullptr;
         node = &graph_.node(node->inputs[0].node)) {
      if (!node->quantization.empty()) return fmt::format("{} is quantized already", node->name);
      between.push_back(node);
      if (readers_.at(node->inputs[0].node) > 1) {
        return fmt::format("{} has other readers than {}", node->inputs[0].node, node->name);
      }
    }
    if (!may_produce_(*node))
      return fmt::format("{} ({}) cannot take up a factor a channel", node->name, node->op);
    if (!node->quantization.empty()) return fmt::format("{} is quantized already", node->name);
    pair.producer = node->name;
    std::ranges::reverse(between);
    return follow_channels(*node, between, pair);
  }

  const Shape& shape(const Node& node) const { return shapes_.at(node.name).shape; }

  std::string follow_channels(const Node& producer, const std::vector<const Node*>& between,
                              EqualizationPair& pair) const {
    const size_t axis = channel_axis(producer, shape(producer).size());
    pair.channels = shape(producer)[axis];
    const Node* before = &producer;
    for (const Node* node : between) {
      const Shape& in = shape(*before);
      const Shape& out = shape(*node);
      if (trait<Pooling>(*node) != nullptr && !(axis == 1 && in.size() > 2)) {
        return fmt::format("{} mixes channels", node->name);
      }
      if (is_view(*node) && in != out) {
        if (axis != 1 || out.size() != 2 || out[0] != in[0])
          return fmt::format("{} mixes channels", node->name);
        pair.features = out[1] / pair.channels;
      }
      before = node;
    }
    for (const std::string& sink : pair.sinks) {
      if (axis != channel_axis(graph_.node(sink), shape(*before).size())) {
        return fmt::format("{} sums over another dimension than the channels of {}", sink, producer.name);
      }
    }
    return "";
  }

  const Graph& graph_;
  const std::function<bool(const Node&)>& may_produce_;
  const ValueTypes shapes_;
  const std::map<std::string, size_t> readers_;
};

/// A clone of the parameter with every element multiplied by factor(index).
template <class Factor>
Tensor scaled(const Tensor& tensor, const Factor& factor) {
  Tensor result = tensor.clone();
  const std::span<float> values = result.values<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<double>(values[i]) * factor(static_cast<int64_t>(i)));
  }
  return result;
}

void scale_producer(Node& producer, const EqualizationPair& pair, const std::vector<double>& factors) {
  const auto of_channel = [&](int64_t channel) { return factors[static_cast<size_t>(channel)]; };
  Parameter* weight = producer.own_parameter("weight");
  if (weight == nullptr) {
    Tensor ones(DType::kFloat32, {pair.channels});
    std::ranges::fill(ones.values<float>(), 1.0F);
    producer.parameters.insert(producer.parameters.begin(), {"weight", Parameter{std::move(ones), true}});
    weight = &*producer.parameters.front().second;
  }
  if (is_weighted_sum(producer)) {
    const WeightChannels channels(producer);
    weight->tensor =
        scaled(weight->tensor, [&](int64_t index) { return of_channel(channels.output(index)); });
  } else {
    weight->tensor = scaled(weight->tensor, of_channel);
  }
  if (Parameter* bias = producer.own_parameter("bias")) bias->tensor = scaled(bias->tensor, of_channel);
}

}  // namespace

EqualizationPairs find_equalization_pairs(const Graph& graph,
                                          const std::function<bool(const Node&)>& may_produce) {
  const PairSearch search(graph, may_produce);
  EqualizationPairs result;
  for (const Node& value : graph.nodes()) {
    const bool feeds_a_layer = std::ranges::any_of(graph.nodes(), [&](const Node& node) {
      return is_weighted_sum(node) && node.inputs[0].node == value.name;
    });
    if (!feeds_a_layer) continue;
    EqualizationPair pair;
    const std::string reason = search.find(value.name, pair);
    if (reason.empty()) {
      result.pairs.push_back(std::move(pair));
    } else {
      result.obstacles.push_back(fmt::format("{}: {}", value.name, reason));
    }
  }
  return result;
}

std::vector<double> sink_ranges(const Graph& graph, const EqualizationPair& pair) {
  std::vector<double> ranges(static_cast<size_t>(pair.channels));
  for (const std::string& name : pair.sinks) {
    const Node& sink = graph.node(name);
    const std::span<const float> weight = sink.find_parameter("weight")->tensor.values<float>();
    const WeightChannels channels(sink);
    for (size_t i = 0; i < weight.size(); ++i) {
      double& range = ranges[static_cast<size_t>(channels.input(static_cast<int64_t>(i)) / pair.features)];
      range = std::max(range, std::fabs(static_cast<double>(weight[i])));
    }
  }
  return ranges;
}

double equalizing_factor(double source_range, double sink_range, double alpha) {
  constexpr double kLeast = 1e-9;
  if (!(source_range > kLeast) || !(sink_range > kLeast)) return 1;
  return std::pow(sink_range, 1 - alpha) / std::pow(source_range, alpha);
}

void move_scale(Graph& graph, const EqualizationPair& pair, const std::vector<double>& factors) {
  DETENT_CHECK(factors.size() == static_cast<size_t>(pair.channels), "{} factors for {} channels",
               factors.size(), pair.channels);
  scale_producer(graph.node(pair.producer), pair, factors);
  graph.node(pair.producer).statistics = {};
  for (const std::string& name : pair.sinks) {
    Node& sink = graph.node(name);
    sink.statistics = {};
    Parameter& weight = *sink.own_parameter("weight");
    const WeightChannels channels(sink);
    weight.tensor = scaled(weight.tensor, [&](int64_t index) {
      return 1 / factors[static_cast<size_t>(channels.input(index) / pair.features)];
    });
  }
}

}  // namespace detent
