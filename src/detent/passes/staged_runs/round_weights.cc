#include "detent/passes/staged_runs/round_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/progress.h"
#include "detent/core/text_table.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/passes/passes.h"
#include "detent/passes/transform/graph_edits.h"
#include "detent/reconstruction/im2col.h"

// A run of the network for the choice, another one in float beside it where its outputs are the aim, and two
// for the biases. Of each layer with n inputs the second moments take n^2 / 2 products a row, and those with
// what the inputs moved by three times as much; their inverse about n^3; spreading an error over the weights
// after it n^2 a row of the weight.

namespace detent {
namespace {

/// A layer to round.
struct Layer {
  size_t index;  // of the node
  WeightRounding rounding;
};

std::vector<Layer> layers_of(const Graph& graph, const PassContext& context, const MakeWeightRounding& make) {
  std::vector<Layer> layers;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    const QuantSpec* spec = node.find_quantization("weight");
    if (spec == nullptr) continue;
    if (!Im2Col::exist_for(node)) {
      context.warn(
          fmt::format("{}: node \"{}\" ({}) has a quantized weight, but is no linear layer or "
                      "convolution: its weight is rounded to nearest",
                      context.where, node.name, node.op));
      continue;
    }
    const std::string where = fmt::format("{}: node \"{}\", operand \"weight\"", context.where, node.name);
    // Where the network owns the scale, it is fixed as it is now.
    layers.push_back({i, make(node.rounding("weight").value_or(*spec), node, where)});
  }
  return layers;
}

/// Whether both multiply the same rows: queries, keys and values, or gate and up.
bool take_the_same(const Node& a, const Node& b) {
  const auto is_linear = [](const Node& node) {
    const auto* sum = trait<WeightedSum>(node);
    return sum != nullptr && sum->spatial_dims == 0 && !sum->transposed;
  };
  const auto are_equal = [](const Quantizer* one, const Quantizer* other) {
    return one == other || (one != nullptr && other != nullptr && *one == *other);
  };
  return is_linear(a) && is_linear(b) && a.inputs[0] == b.inputs[0] &&
         are_equal(a.find_quantizer("data_in_0"), b.find_quantizer("data_in_0")) &&
         a.find_parameter("weight")->tensor.shape().back() ==
             b.find_parameter("weight")->tensor.shape().back();
}

/// Moments of the inputs of one layer after another, found once for those that take the same.
class MomentsInTurn {
 public:
  MomentsInTurn(StagedRun& run, StagedRun* in_float) : run_(run), in_float_(in_float) {}

  const std::vector<InputMoments>& of(const Node& layer, size_t index, const std::string& where) {
    if (last_ != nullptr && take_the_same(*last_, layer)) return moments_;
    moments_.clear();
    moments_ = input_moments(layer, index, run_, in_float_, where);
    last_ = &layer;
    for (InputMoments& moments : moments_) moments.number = ++count_;
    return moments_;
  }

 private:
  StagedRun& run_;
  StagedRun* in_float_;
  const Node* last_ = nullptr;
  int64_t count_ = 0;
  std::vector<InputMoments> moments_;
};

/// Sums over the rows of a layer, of its outputs' mean squares.
struct Errors {
  double signal = 0;
  double nearest = 0;
  double chosen = 0;
  bool was_exact = false;  // the spec held the weights before
};

double total(const std::vector<double>& rows) { return std::accumulate(rows.begin(), rows.end(), 0.0); }

Errors round_layer(Node& node, const WeightRounding& rounding, const std::vector<InputMoments>& inputs,
                   const std::string& where) {
  Parameter& parameter = *node.find_parameter("weight");
  const Tensor original = parameter.tensor;
  Quantizer& quantizer = *node.quantization.find("weight")->second;
  const Tensor nearest = fake_quantize(quantizer, original);
  const Tensor zero(DType::kFloat32, original.shape());
  Tensor chosen = original.clone();
  Errors errors;
  errors.was_exact = nearest.equals(original);
  const int64_t rows = original.dim(0) / std::ssize(inputs);
  for (size_t group = 0; group < inputs.size(); ++group) {
    const int64_t begin = static_cast<int64_t>(group) * rows;
    const int64_t end = begin + rows;
    if (!errors.was_exact) rounding.round(inputs[group], where, chosen, begin, end);
    errors.signal += total(row_errors(inputs[group], original, zero, begin, end));
    errors.nearest += total(row_errors(inputs[group], original, nearest, begin, end));
    errors.chosen += total(row_errors(inputs[group], original, chosen, begin, end));
  }
  quantizer = rounding.spec;
  DETENT_CHECK(fake_quantize(quantizer, chosen).equals(chosen), "{}: {} does not hold the chosen values",
               where, quant_spec_text(quantizer.spec));
  parameter.tensor = std::move(chosen);
  return errors;
}

}  // namespace

std::string decibel(double signal, double noise) {
  if (noise == 0) return "exact";
  return signal == 0 ? "-inf" : fmt::format("{:.2f}", 10 * std::log10(signal / noise));
}

void check_weights_to_round(const Graph& graph, const std::string& where) {
  const auto has_weight = [](const Node& node) {
    return node.find_quantization("weight") != nullptr && Im2Col::exist_for(node);
  };
  if (std::ranges::any_of(graph.nodes(), has_weight)) return;
  fail("{}: no linear layer or convolution has a quantized weight: {}", where,
       graph.requantization() ? "other weights (embeddings, recurrent layers) are rounded to nearest"
                              : "let the pass quantize go before");
}

void round_weights(Graph& graph, const CalibrationInputOptions& options, PassContext& context,
                   RoundingTarget target, const MakeWeightRounding& make) {
  check_weights_to_round(graph, context.where);
  const std::vector<Layer> layers = layers_of(graph, context, make);
  Graph rounded = graph;
  StagedRun run(rounded, options, context);
  const Graph network = without_quantization(graph);
  std::optional<StagedRun> in_float;
  if (target == RoundingTarget::kFloatNetwork) in_float.emplace(network, options, context);
  std::vector<std::string> exact;
  TextTable table({"node", "weights", "nearest, SQNR dB", "chosen, SQNR dB"});
  MomentsInTurn in_turn(run, in_float ? &*in_float : nullptr);
  Progress progress("rounding weights, layers", std::ssize(layers), {.shown = context.group->is_first()});
  for (const Layer& layer : layers) {
    Node& node = rounded.nodes()[layer.index];
    const std::string where = fmt::format("{}: node \"{}\"", context.where, node.name);
    const std::vector<InputMoments>& inputs = in_turn.of(node, layer.index, where);
    const Errors errors = round_layer(node, layer.rounding, inputs, where);
    table.add_row({node.name, fmt::format("{}", node.find_parameter("weight")->tensor.numel()),
                   decibel(errors.signal, errors.nearest), decibel(errors.signal, errors.chosen)});
    if (errors.was_exact) exact.push_back(fmt::format("\"{}\"", node.name));
    progress.update(std::ssize(table.rows()), node.name);
  }
  progress.finish();
  if (context.float_network == nullptr) context.float_network = std::make_shared<Graph>(graph.deep_copy());
  graph = std::move(rounded);
  context.report(table.to_text());
  if (exact.empty()) return;
  context.warn(fmt::format("{}: the weights of {} were values of their formats already: nothing is chosen",
                           context.where, fmt::join(exact, ", ")));
}

std::vector<InputMoments> input_moments(const Node& layer, size_t index, StagedRun& run, StagedRun* in_float,
                                        const std::string& where) {
  const Im2Col im2col(layer, where);
  GramMatrices grams(im2col);
  std::optional<ShiftMatrices> shifts;
  if (in_float != nullptr) {
    shifts.emplace(im2col);
    in_float->advance_to(index);
  }
  run.advance_to(index);
  for (int64_t batch = 0; batch < run.batch_count(); ++batch) {
    const Tensor input = quantized_operand(layer, "data_in_0", run.input(batch), where);
    grams.add(input);
    if (shifts) shifts->add(input, in_float->input(batch));
  }
  std::vector<InputMoments> moments;
  for (int64_t group = 0; group < im2col.groups(); ++group) {
    InputMoments& of_group = moments.emplace_back();
    of_group.gram = grams.mean(group, where);
    if (!shifts) continue;
    of_group.shift = shifts->mean(group, where);
    of_group.shift_gram = shifts->gram(group, where);
  }
  return moments;
}

ChoosingCost choosing_cost(const Graph& network, RoundingTarget target, const NamedSizes& sizes) {
  const bool beside_float = target == RoundingTarget::kFloatNetwork;
  const double runs = beside_float ? 4 : 3;
  const double moments = beside_float ? 4 : 1;
  const std::vector<double> products = node_multiply_adds(network, sizes);
  ChoosingCost cost;
  for (size_t i = 0; i < products.size(); ++i) {
    const Node& node = network.nodes()[i];
    cost.per_sample += runs * products[i];
    if (!is_weighted_sum(node) || !Im2Col::exist_for(node)) continue;
    const Im2Col im2col(node, node.name);
    const auto groups = static_cast<double>(im2col.groups());
    const auto length = static_cast<double>(im2col.length());
    const double rows = groups * static_cast<double>(im2col.rows_per_group());
    cost.per_sample += moments * products[i] * length * groups / (2 * rows);
    cost.per_step += rows * length * length;
    cost.fixed += groups * length * length * length + rows * length * length;
  }
  return cost;
}

}  // namespace detent
