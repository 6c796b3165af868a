#include "detent/passes/truth_tables/lutnet_layer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "detent/core/error.h"
#include "detent/formats/groups/given_parameters.h"
#include "detent/formats/verbs.h"
#include "detent/graph/operators.h"
#include "detent/graph/table_layer.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// Weights as sums of signs: the residuals whose signs they are, and what each sign counts.
struct SignedWeights {
  std::vector<std::vector<float>> residuals;   // [levels][weight]
  std::vector<std::vector<float>> amplitudes;  // [levels][output]
};

/// One weight of the layer: what it reads, by its place in the window.
struct Connection {
  int64_t input = 0;
  size_t weight = 0;
  bool is_pruned = false;
};

/// Gammas of each level's signs, for formats whose values are sums of them, for the whole tensor.
std::optional<std::vector<float>> gammas_of(const QuantSpec& spec) {
  std::vector<float> levels = sign_levels(spec.format);
  return levels.empty() ? std::nullopt : std::optional(std::move(levels));
}

/// The magnitude of each output's weights; nullopt where these have several, or are 0.
std::optional<std::vector<float>> magnitudes_of_outputs(const Tensor& rounded,
                                                        const WeightChannels& channels) {
  std::vector<float> magnitudes(static_cast<size_t>(channels.outputs()), 0.0F);
  int64_t index = 0;
  for (const float value : rounded.values<float>()) {
    float& magnitude = magnitudes[static_cast<size_t>(channels.output(index++))];
    if (magnitude == 0) magnitude = std::fabs(value);
    if (magnitude != std::fabs(value) || !(magnitude > 0)) return std::nullopt;
  }
  return magnitudes;
}

/// Whether the values are a sign times a scale that does not follow from them.
bool is_sign(const QuantSpec& spec) {
  const std::optional<SignCodes> signs = sign_codes(spec.format);
  return signs && signs->is_bipolar && !signs->is_stochastic;
}

std::optional<SignedWeights> signed_weights(const Node& layer) {
  const Quantizer* quantizer = layer.find_quantizer("weight");
  if (quantizer == nullptr) return std::nullopt;
  const Tensor& weight = layer.find_parameter("weight")->tensor;
  const WeightChannels channels(layer);
  std::vector<float> left(weight.values<float>().begin(), weight.values<float>().end());
  SignedWeights result;
  if (is_sign(quantizer->spec)) {
    std::optional<std::vector<float>> magnitudes =
        magnitudes_of_outputs(fake_quantize(*quantizer, weight), channels);
    if (!magnitudes) return std::nullopt;
    result.residuals.push_back(std::move(left));
    result.amplitudes.push_back(std::move(*magnitudes));
    return result;
  }
  const std::optional<QuantSpec> rounding = quantizer->effective_spec();
  if (!rounding) return std::nullopt;
  const std::optional<std::vector<float>> gammas = gammas_of(with_given_parameters(*rounding, weight));
  if (!gammas) return std::nullopt;
  for (const float gamma : *gammas) {
    result.residuals.push_back(left);
    result.amplitudes.emplace_back(static_cast<size_t>(channels.outputs()), gamma);
    for (float& value : left) value -= value >= 0 ? gamma : -gamma;
  }
  return result;
}

/// Gammas of an input's signs, by level.
std::optional<std::vector<float>> input_gammas(const Node& layer) {
  const Quantizer* quantizer = layer.find_quantizer("data_in_0");
  if (quantizer == nullptr || quantizer->spec.granularity != Granularity::kTensor) return std::nullopt;
  if (!is_sign(quantizer->spec)) {
    const std::optional<QuantSpec> rounding = quantizer->effective_spec();
    return rounding ? gammas_of(*rounding) : std::nullopt;
  }
  const bool is_derived = sign_codes(quantizer->spec.format)->scaling != BinaryScaling::kNone &&
                          quantizer->spec.scale_rule != ScaleRule::kLearned;
  if (is_derived) return std::nullopt;
  const Tensor one = Tensor::from<float>({1}, std::vector<float>{1});
  return std::vector<float>{fake_quantize(*quantizer, one).values<float>()[0]};
}

/// The connections of each output, in the order of the window.
std::vector<std::vector<Connection>> kept_connections(const Node& layer) {
  const WeightChannels channels(layer);
  const Tensor& weight = layer.find_parameter("weight")->tensor;
  const int64_t window = element_count({weight.shape().begin() + 2, weight.shape().end()});
  std::vector<std::vector<Connection>> result(static_cast<size_t>(channels.outputs()));
  for (int64_t index = 0; index < weight.numel(); ++index) {
    result[static_cast<size_t>(channels.output(index))].push_back(
        {.input = channels.input(index) * window + index % window, .weight = static_cast<size_t>(index)});
  }
  return result;
}

/// The smallest weights of the layer, equal ones in their order.
void prune(std::vector<std::vector<Connection>>& outputs, const Tensor& weight, double share) {
  const auto magnitudes = weight.values<float>();
  std::vector<size_t> order(magnitudes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return std::fabs(magnitudes[i]); });
  const auto count = static_cast<size_t>(std::ceil(share * static_cast<double>(order.size())));
  std::vector<bool> is_pruned(order.size());
  for (size_t i = 0; i < count; ++i) is_pruned[order[i]] = true;
  for (auto& connections : outputs)
    for (Connection& connection : connections) connection.is_pruned = is_pruned[connection.weight];
}

/// Where among an output's connections the inputs of a table are drawn from: all of them, of a convolution
/// the same channel's where its positions are enough.
struct Range {
  size_t begin;
  size_t end;
};
Range neighbours(const std::vector<Connection>& connections, size_t own, size_t window, int64_t wanted) {
  if (std::cmp_less(window, wanted)) return {0, connections.size()};
  return {own / window * window, own / window * window + window};
}

/// `count` connections of the range, the own one first, none twice.
std::vector<size_t> drawn(const Range& from, size_t own, int64_t count, std::mt19937_64& draw) {
  std::vector<size_t> result = {own};
  while (std::ssize(result) < count) {
    const size_t place = from.begin + draw() % (from.end - from.begin);
    if (std::ranges::find(result, place) == result.end()) result.push_back(place);
  }
  return result;
}

/// Parts of a table: the places of its inputs among the connections, the own one first.
using TableInputs = std::vector<size_t>;

/// The positions of a window in each channel.
size_t weight_window_positions(const Tensor& weight) {
  return static_cast<size_t>(element_count({weight.shape().begin() + 2, weight.shape().end()}));
}

struct MadeTables {
  Tensor inputs;
  Tensor tables;
  int64_t kept = 0;  // connections
};

struct LayerTables {
  const SignedWeights& weights;
  const LutnetLayer& wanted;
  int64_t levels;

  int64_t sums() const { return levels * std::ssize(weights.residuals); }

  /// A table for each connection that is kept, and none where an output has fewer of them than another.
  MadeTables make(const std::vector<std::vector<Connection>>& outputs, size_t window,
                  std::mt19937_64& draw) const {
    const auto is_kept = [](const Connection& connection) { return !connection.is_pruned; };
    int64_t terms = 1;
    MadeTables made;
    for (const auto& connections : outputs) {
      const auto kept = static_cast<int64_t>(std::ranges::count_if(connections, is_kept));
      terms = std::max(terms, kept);
      made.kept += kept;
    }
    const int64_t fan_in = wanted.table_inputs;
    made.inputs = Tensor(DType::kInt64, {std::ssize(outputs), terms, fan_in});
    made.tables = Tensor(DType::kFloat32, {std::ssize(outputs), terms, sums(), int64_t{1} << fan_in});
    int64_t* inputs = made.inputs.values<int64_t>().data();
    float* tables = made.tables.values<float>().data();
    for (const std::vector<Connection>& connections : outputs) {
      int64_t missing = terms;
      for (size_t own = 0; own < connections.size(); ++own) {
        if (connections[own].is_pruned) continue;
        const TableInputs read = drawn(neighbours(connections, own, window, fan_in), own, fan_in, draw);
        for (const size_t place : read) *inputs++ = connections[place].input;
        fill(connections, read, tables);
        tables += sums() << fan_in;
        --missing;
      }
      for (; missing > 0; --missing, inputs += fan_in, tables += sums() << fan_in) *inputs = kNoTable;
    }
    return made;
  }

 private:
  /// For address a, the sum of w x over the own input and those whose connections are pruned: its sign is the
  /// product of signs where only the own one counts. Tables of real numbers begin with the signs.
  void fill(const std::vector<Connection>& connections, const TableInputs& inputs, float* tables) const {
    const int64_t entries = int64_t{1} << wanted.table_inputs;
    for (int64_t level = 0; level < levels; ++level) {
      for (const std::vector<float>& residuals : weights.residuals) {
        for (int64_t address = 0; address < entries; ++address) {
          float sum = 0;
          for (size_t k = 0; k < inputs.size(); ++k) {
            const Connection& connection = connections[inputs[k]];
            if (k > 0 && !(wanted.keep_pruned && connection.is_pruned)) continue;
            const float weight = weight_of(residuals[connection.weight]);
            sum += (address >> k & 1) != 0 ? weight : -weight;
          }
          *tables++ = wanted.binarize || sum == 0 ? sum : std::copysign(1.0F, sum);
        }
      }
    }
  }

  /// The sign of 0 is +1, in both its tables.
  static float weight_of(float residual) {
    return residual == 0 ? std::numeric_limits<float>::min() : residual;
  }
};

Tensor amplitudes(const SignedWeights& weights, const std::vector<float>& gammas) {
  const size_t outputs = weights.amplitudes.front().size();
  const auto is_constant = [](const std::vector<float>& list) {
    return std::ranges::all_of(list, [&](float value) { return value == list.front(); });
  };
  const size_t rows = std::ranges::all_of(weights.amplitudes, is_constant) ? 1 : outputs;
  std::vector<float> values;
  for (size_t output = 0; output < rows; ++output) {
    for (const float gamma : gammas)
      for (const std::vector<float>& of_level : weights.amplitudes)
        values.push_back(gamma * of_level[output]);
  }
  return Tensor::from<float>(
      {static_cast<int64_t>(rows), static_cast<int64_t>(gammas.size() * weights.amplitudes.size())}, values);
}

Table attributes_of(const Node& layer, const Tensor& weight, const LutnetLayer& wanted, double unit) {
  Table attributes = {{"unit", unit}, {"binarize", wanted.binarize}};
  if (weight.rank() == 2) return attributes;
  List kernel;
  for (int64_t dim = 2; dim < weight.rank(); ++dim) kernel.emplace_back(weight.dim(dim));
  attributes["kernel_size"] = std::move(kernel);
  for (const char* name : {"stride", "padding", "dilation"}) attributes[name] = *layer.attributes.find(name);
  return attributes;
}

/// A bias that was rounded keeps the values that it was rounded to.
void settle_bias(Node& layer) {
  Parameter* bias = layer.find_parameter("bias");
  if (bias == nullptr) return;
  if (const Quantizer* quantizer = layer.find_quantizer("bias"))
    bias->tensor = fake_quantize(*quantizer, bias->tensor);
}

}  // namespace

double amplitude_unit(const Tensor& amplitude, int64_t width) {
  if (width == 0) return 0;
  double largest = 0;
  for (const float value : amplitude.values<float>()) largest = std::max(largest, std::fabs(double{value}));
  return largest > 0 ? std::exp2(std::ceil(std::log2(largest)) - static_cast<double>(width)) : 1;
}

/// A training holds tables four times, with their gradients and what the optimizer keeps of them.
constexpr double kMostBytes = 4e9;

std::string lutnet_obstacle(const Node& layer, const LutnetLayer& wanted) {
  const auto* sum = trait<WeightedSum>(layer);
  if (sum == nullptr || sum->transposed || sum->spatial_dims > 2 || layer.find_parameter("weight") == nullptr)
    return fmt::format("{} is no linear, conv1d or conv2d layer", layer.op);
  if (!signed_weights(layer))
    return "its weights are not binary or residual binary, with a scale for the tensor or each output";
  const std::optional<std::vector<float>> gammas = input_gammas(layer);
  if (!gammas) return "its input is not binary or residual binary with gammas that are given or learned";
  if (std::ssize(*gammas) > kMostLevels)
    return fmt::format("its input has {} levels, expected at most {}", gammas->size(), kMostLevels);
  const WeightChannels channels(layer);
  const int64_t window = layer.find_parameter("weight")->tensor.numel() / channels.outputs();
  if (window < wanted.table_inputs)
    return fmt::format("tables of {} inputs do not fit a window of {} elements", wanted.table_inputs, window);
  const double kept = static_cast<double>(channels.outputs() * window) * (1 - wanted.pruned_share);
  const auto sums = static_cast<double>(gammas->size() * signed_weights(layer)->residuals.size());
  const double bytes = std::ldexp(kept * sums * sizeof(float), static_cast<int>(wanted.table_inputs));
  if (bytes > kMostBytes) {
    return fmt::format(
        "{:.0f} tables of {} entries would take {:.2f} GB, expected at most {:.0f}: fewer inputs, or more "
        "that is pruned",
        kept * sums, int64_t{1} << wanted.table_inputs, bytes / 1e9, kMostBytes / 1e9);
  }
  return "";
}

LutnetConnections make_lutnet_layer(Node& layer, const LutnetLayer& wanted, std::mt19937_64& draw) {
  const std::string obstacle = lutnet_obstacle(layer, wanted);
  if (!obstacle.empty()) fail("node \"{}\": {}", layer.name, obstacle);
  const SignedWeights weights = *signed_weights(layer);
  const std::vector<float> gammas = *input_gammas(layer);
  const Tensor weight = layer.find_parameter("weight")->tensor;
  std::vector<std::vector<Connection>> outputs = kept_connections(layer);
  prune(outputs, weight, wanted.pruned_share);
  const LayerTables filling{weights, wanted, static_cast<int64_t>(gammas.size())};
  MadeTables made = filling.make(outputs, weight_window_positions(weight), draw);
  const int64_t sums = filling.sums();

  settle_bias(layer);
  const Tensor amplitude = amplitudes(weights, gammas);
  layer.attributes = attributes_of(layer, weight, wanted, amplitude_unit(amplitude, wanted.amplitude_width));
  std::vector<std::pair<std::string, ParameterRef>> parameters = {
      {"inputs", Parameter{std::move(made.inputs), false}},
      {"tables", Parameter{std::move(made.tables), true}},
      {"gamma", Parameter{Tensor::from<float>({std::ssize(gammas)}, gammas), false}},
      {"amplitude", Parameter{amplitude, true}}};
  for (const auto& [name, parameter] : layer.parameters)
    if (name == "bias") parameters.emplace_back(name, parameter);
  layer.parameters = std::move(parameters);
  layer.op = trained_tables_operator(static_cast<size_t>(weight.rank()) - 2);
  for (const char* operand : {"data_in_0", "weight", "bias"}) layer.quantization.erase(operand);
  layer.statistics = {};
  return {made.kept * sums, weight.numel() * sums};
}

}  // namespace detent
