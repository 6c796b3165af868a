#include "detent/workflows/resource_use.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "detent/core/log.h"
#include "detent/core/parallel.h"
#include "detent/core/process_resources.h"
#include "detent/engine/fast_executor.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/graph/value_sizes.h"
#include "detent/language/language_graph.h"
#include "detent/passes/pass.h"
#include "detent/passes/post_training/static_quantize_options.h"
#include "detent/passes/staged_runs/executor_in_parts.h"
#include "detent/passes/staged_runs/staged_run.h"

namespace detent {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
/// The most that the layer-wise errors keep of several samples together; one may take more.
constexpr int64_t kMostKept = 24 * kMiB;
constexpr int64_t kMostSamples = 64;
constexpr int64_t kMostKeptSamples = 8;

int64_t value_bytes(const ValueTypes& values, const std::string& name) {
  const Operand& value = values.at(name);
  if (!value.is_tensor() || value.is_open()) return 0;
  return element_count(value.shape) * static_cast<int64_t>(dtype_size(value.dtype));
}

/// Bytes of weights.
struct WeightBytes {
  int64_t all = 0;
  int64_t layer = 0;  // of the largest
};

WeightBytes weight_bytes_of(const Graph& graph) {
  WeightBytes bytes;
  std::set<const Parameter*> seen;
  for (const Node& node : graph.nodes()) {
    int64_t layer = 0;
    for (const auto& [name, parameter] : node.parameters) {
      const auto size = static_cast<int64_t>(parameter->tensor.byte_size());
      layer += size;
      if (seen.insert(&*parameter).second) bytes.all += size;
    }
    if (node.body != nullptr) bytes.all += weight_bytes_of(*node.body).all;
    bytes.layer = std::max(bytes.layer, layer);
  }
  return bytes;
}

/// Bytes of values of one sample.
struct SampleBytes {
  int64_t node = 0;     // of the most that a node takes and gives
  int64_t input = 0;    // of the largest input of a layer
  int64_t results = 0;  // of all quantized nodes
};

SampleBytes sample_bytes(const Graph& graph, const NamedSizes& sizes, bool rounds_all) {
  const ValueTypes values = infer_shapes(graph, with_batch(graph, sizes, 1));
  SampleBytes bytes;
  for (const Node& node : graph.nodes()) {
    int64_t taken = 0;
    for (const NodeInput& input : node.inputs)
      if (!input.is_constant()) taken += value_bytes(values, value_name(input));
    int64_t given = 0;
    for (size_t i = 0; i < result_count(node); ++i) given += value_bytes(values, value_name(node.name, i));
    const bool is_layer = is_weighted_sum(node) || trait<MatrixProduct>(node) != nullptr;
    if (is_layer) bytes.input = std::max(bytes.input, taken);
    if (is_layer || rounds_all) bytes.results += given;
    bytes.node = std::max(bytes.node, taken + given);
  }
  return bytes;
}

/// Sizes of the longest sample.
NamedSizes largest_sizes(const Graph& graph, const Dataset& dataset) {
  NamedSizes largest;
  int64_t most = -1;
  std::set<size_t> seen;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    if (!seen.insert(dataset.size_of_sample(i)).second) continue;
    const std::vector<Tensor> inputs = dataset.batch(std::array{i}).inputs;
    if (inputs.front().numel() <= most) continue;
    most = inputs.front().numel();
    largest = sizes_of(graph, inputs);
  }
  return largest;
}

StaticQuantizeOptions quantize_options_of(const Table& passes) {
  StaticQuantizeOptions options;
  if (const Value* given = passes.find("static_quantize"))
    read_fields(options, *given->get_if<Table>(), "static_quantize");
  return options;
}

bool chooses_weights(const Table& passes) {
  for (const auto& [name, options] : passes)
    if (find_pass(name).stage == PassStage::kRoundingWeights) return true;
  return false;
}

/// Bytes that the steps take, one after the other, besides the network.
struct StepBytes {
  int64_t calibrating = 0;
  int64_t biases = 0;
  int64_t errors = 0;  // of layers, and gains
  int64_t integers = 0;
  int64_t files = 0;

  int64_t most() const { return std::max({calibrating, biases, errors, integers, files}); }
};

StepBytes step_bytes(const Graph& network, const StaticQuantizeOptions& options, const Dataset& calibration) {
  const FastExecutor whole;
  const ExecutorInParts executor(whole);
  const WeightBytes weights = weight_bytes_of(network);
  const int64_t part = executor.most_at_once(network);
  const SampleBytes sample =
      sample_bytes(network, largest_sizes(network, calibration), options.activations.is_integer());
  const int64_t samples = std::min(options.num_samples, calibration.size());
  const int64_t together =
      std::max(sample.node, std::min(kActivationBytes, sample.node * std::min(samples, kMostSamples)));
  const int64_t kept =
      std::max(sample.results, std::min(kMostKept, sample.results * std::min(samples, kMostKeptSamples)));
  const int64_t threads = thread_count();
  StepBytes bytes;
  // A run has its part's weights twice while it packs one of them, and inputs, results and copies of values.
  bytes.calibrating = part + weights.layer + (3 + 2 * threads) * together;
  const int64_t budget = CalibrationInputOptions().memory_budget * kMiB;
  bytes.biases = part + 2 * weights.layer + 4 * together + std::min(budget, 3 * samples * sample.input);
  // Layers run once more by themselves, while results of the float network wait. What is compiled as a whole
  // is there in float, quantized and with a node in float; such networks are small enough for advice too,
  // which chooses weights anew.
  const int64_t programs = part < weights.all ? 2 * part : 3 * part + weights.all;
  bytes.errors = programs + weights.layer + 6 * together + kept;
  if (options.activations.is_integer()) bytes.integers = weights.all + 2 * weights.layer + 4 * together;
  // Codes of all weights; of the largest, values and codes a byte each besides.
  const double share = std::min(1.0, options.weights.bits() / 32 * 1.5);
  bytes.files = static_cast<int64_t>(share * static_cast<double>(weights.all)) + 4 * weights.layer;
  return bytes;
}

/// Rounded up.
int64_t megabytes_of(int64_t bytes) { return (bytes + 999'999) / 1'000'000; }

}  // namespace

int64_t announce_quantization_memory(const Graph& network, const Table& passes, const Dataset& calibration) {
  if (!network.input_types().contains(kTokensInput)) return 0;
  const StepBytes bytes = step_bytes(network, quantize_options_of(passes), calibration);
  const int64_t chosen = chooses_weights(passes) ? weight_bytes_of(network).all : 0;
  const ResidentMemory resident = resident_memory();
  const int64_t besides = chosen + bytes.most();
  // A tenth lies between values in the heap.
  const int64_t most = std::max(resident.most, resident.now + besides + besides / 10);
  log_info(
      "memory: at most {} MB (loaded {}; besides: calibration {}, biases {}, errors of layers {}, integers "
      "{}, "
      "files {})",
      megabytes_of(most), megabytes_of(resident.now), megabytes_of(bytes.calibrating),
      megabytes_of(bytes.biases), megabytes_of(bytes.errors), megabytes_of(bytes.integers),
      megabytes_of(bytes.files));
  return most;
}

}  // namespace detent
