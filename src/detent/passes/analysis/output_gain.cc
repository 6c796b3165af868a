#include "detent/passes/analysis/output_gain.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

#include "detent/core/convert.h"
#include "detent/formats/measure/distortion.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/graph/value_sizes.h"
#include "detent/inference/node_form.h"
#include "detent/passes/analysis/network_cost.h"

namespace detent {
namespace {

constexpr int64_t kGainMicroBatch = 16;
constexpr int64_t kGainBytes = int64_t{12} << 20;  // of what a node takes and gives

constexpr double kFewestSamples = 8;  // or chance decides
/// About a second of a core: of resnet18 at 224 x 224, 2.8 runs over 8 samples.
constexpr double kMostProducts = 4e10;

/// Cost of compiling a node, in products: some 9 microseconds.
constexpr double kProductsOfCompiling = 2e5;

/// As many samples as cost no more than kMostRuns runs of the network, of which every node takes its share,
/// and no more than kMostProducts.
int64_t samples_for(int64_t samples, double runs, double products) {
  constexpr double kMostRuns = 1024;
  const double most = std::min(kMostRuns / std::max(runs, 1.0), kMostProducts / (products * (runs + 2)));
  return std::min(samples, static_cast<int64_t>(std::max(kFewestSamples, most)));
}

/// Cost, a sample, of compiling the network for each batch, in products.
double compiling_a_sample(const CalibrationSet& data, const Graph& graph, int64_t most) {
  const int64_t samples = std::min(data.size(), static_cast<int64_t>(kFewestSamples));
  const size_t batches = calibration_batches(data, graph, samples, most).size();
  return kProductsOfCompiling * static_cast<double>(graph.nodes().size() * batches) /
         static_cast<double>(samples);
}

/// The share of the network that is run from a node on.
double share_from(const Graph& graph, size_t first) {
  return 1 - static_cast<double>(first) / static_cast<double>(graph.nodes().size());
}

/// Takes the rounding off the value where it is computed, after which codes may have been moved or clamped.
/// Returns the position of the first node that this changes, or `position`.
size_t release_value(Graph& graph, const NodeInput& value, size_t position) {
  Node& giver = graph.node(value.node);
  const bool clamps = clamp_of(giver) != nullptr && !is_rectifier(giver);
  if (giver.quantization.erase(fmt::format("data_out_{}", value.result)) > 0)
    position = std::min(position, graph.position(value.node));
  if (role_of(giver) == OperatorRole::kConstant && giver.quantization.erase("value") > 0)
    position = std::min(position, graph.position(value.node));
  if (clamps) giver.quantization.clear();
  const auto* movement = trait<Movement>(giver);
  const bool joins = movement != nullptr && movement->joins;
  const bool moves = moves_codes(giver) && !joins && !giver.inputs.empty();
  return clamps || moves ? release_value(graph, giver.inputs[0], position) : position;
}

/// Whether elements are compared one by one, without what others of them are.
bool is_compared_as_it_is(const Tensor& value) {
  return value.dtype() == DType::kFloat32 && !is_classifier(value);
}

double squared_difference(double expected, double actual) {
  if (!std::isfinite(expected)) return 0;
  const double distance = expected - actual;
  return std::isnan(distance) ? HUGE_VAL : distance * distance;
}

}  // namespace

std::optional<size_t> measured_output(const Graph& graph) {
  const ValueTypes values = infer_shapes(graph);
  const std::vector<NodeInput>& outputs = graph.nodes().back().inputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].result == 0 && is_floating_point(values.at(value_name(outputs[i])).dtype)) return i;
  }
  return std::nullopt;
}

Variant variant_with_float_node(const Graph& reference, const Graph& quantized, size_t position) {
  Variant variant{quantized, position};
  const Node& node = reference.nodes()[position];
  for (const NodeInput& input : node.inputs) {
    if (!input.is_constant()) variant.first = release_value(variant.graph, input, variant.first);
  }
  variant.graph.nodes()[position] = node;
  return variant;
}

bool is_classifier(const Tensor& output) { return output.rank() == 2 && output.dim(1) > 1; }

std::vector<double> compared_values(const Graph& graph, size_t output, const Tensor& value) {
  const auto* softmax = trait<Softmax>(graph.node(graph.nodes().back().inputs[output].node));
  const bool probabilities = softmax != nullptr && !softmax->log;
  // A probability that float32 rounds to 0 is smaller than this one.
  constexpr auto kLeast = static_cast<double>(std::numeric_limits<float>::denorm_min());
  const Tensor wide = to_dtype(value, DType::kFloat64);
  std::vector<double> values(wide.values<double>().begin(), wide.values<double>().end());
  if (!is_classifier(value)) return values;
  if (probabilities) {
    for (double& x : values) x = std::log(std::max(x, kLeast));
  }
  const auto classes = static_cast<size_t>(value.dim(1));
  for (size_t begin = 0; begin < values.size(); begin += classes) {
    const std::span row = std::span(values).subspan(begin, classes);
    const double mean = std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(classes);
    for (double& x : row) x -= mean;
  }
  return values;
}

Tensor compared_tensor(const Graph& graph, size_t output, const Tensor& value) {
  if (is_compared_as_it_is(value)) return value;
  const std::vector<double> values = compared_values(graph, output, value);
  Tensor result(DType::kFloat32, value.shape());
  std::ranges::transform(values, result.values<float>().begin(),
                         [](double x) { return static_cast<float>(x); });
  return result;
}

double squared_distance(const std::vector<double>& expected, const std::vector<double>& actual) {
  double sum = 0;
  for (size_t i = 0; i < expected.size(); ++i) sum += squared_difference(expected[i], actual[i]);
  return sum;
}

double compared_distance(const Graph& graph, size_t output, const Tensor& expected, const Tensor& actual) {
  if (!is_compared_as_it_is(expected) || actual.dtype() != DType::kFloat32)
    return squared_distance(compared_values(graph, output, expected), compared_values(graph, output, actual));
  const auto x = expected.values<float>();
  const auto y = actual.values<float>();
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i)
    sum += squared_difference(static_cast<double>(x[i]), static_cast<double>(y[i]));
  return sum;
}

double compared_signal(const Graph& graph, size_t output, const Tensor& expected) {
  if (!is_compared_as_it_is(expected)) {
    const std::vector<double> values = compared_values(graph, output, expected);
    return squared_distance(values, std::vector<double>(values.size()));
  }
  double sum = 0;
  for (const float x : expected.values<float>()) sum += squared_difference(static_cast<double>(x), 0);
  return sum;
}

double OutputSqnr::gain(size_t i) const {
  const double difference = with_float_node[i] - quantized;
  return std::isnan(difference) ? 0 : difference;
}

OutputSqnr measure_output_sqnr(const ComparedNetworks& networks, const std::vector<std::string>& nodes,
                               const CalibrationSet& data, int64_t samples) {
  const auto& [reference, quantized, in_float, in_codes, executor] = networks;
  const std::optional<size_t> output = measured_output(reference);
  if (!output) return {};
  const NamedSizes sizes = sample_sizes(data, reference);
  const int64_t most = std::min(kGainMicroBatch, samples_within(reference, kGainBytes, sizes));
  const double products = multiply_adds(reference, sizes) + compiling_a_sample(data, reference, most);
  VariantRuns variant_runs(quantized, *output);
  size_t variants = 0;
  double runs = 0;  // of the whole network, for all variants
  for (const std::string& name : nodes) {
    const size_t position = quantized.position(name);
    const double with_this = runs + share_from(quantized, position);
    if (variants > 0 && kFewestSamples * (with_this + 2) * products > kMostProducts) break;
    const Variant variant = variant_with_float_node(reference, quantized, position);
    runs += share_from(quantized, variant.first);
    variant_runs.add(variant);
    ++variants;
  }
  const int64_t count = samples_for(std::min(samples, data.size()), runs, products);
  OutputSqnr sqnr;
  sqnr.samples = count;
  double signal = 0;
  double noise = 0;
  std::vector<double> noise_with(variants);
  for (const auto& [begin, end] : calibration_batches(data, reference, count, most)) {
    const std::vector<Tensor> inputs = data.inputs(begin, end);
    const Tensor in_reference = in_float.run(inputs).at(*output);
    sqnr.output = is_classifier(in_reference) ? "logits" : "outputs";
    const auto add_variant = [&](size_t variant, const Tensor& result) {
      noise_with[variant] += compared_distance(networks.reference, *output, in_reference, result);
    };
    const Tensor result = variant_runs.run(inputs, in_codes, executor, add_variant);
    noise += compared_distance(reference, *output, in_reference, result);
    signal += compared_signal(reference, *output, in_reference);
  }
  sqnr.quantized = sqnr_db(signal, noise);
  for (const double rest : noise_with) sqnr.with_float_node.push_back(sqnr_db(signal, rest));
  return sqnr;
}

}  // namespace detent
