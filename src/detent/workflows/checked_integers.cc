#include "detent/workflows/network_report.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/progress.h"
#include "detent/core/xxh64.h"
#include "detent/engine/fast_executor.h"
#include "detent/evaluation/batches.h"
#include "detent/graph/value_sizes.h"
#include "detent/inference/integer_executor.h"
#include "detent/passes/analysis/network_cost.h"

namespace detent {
namespace {

constexpr int64_t kCheckedSamples = 16;

/// Tells values from others without keeping them; 0 and -0 are the same.
struct Digest {
  DType dtype;
  Shape shape;
  uint64_t hash;

  static Digest of(const Tensor& tensor) {
    if (tensor.dtype() != DType::kFloat32) return {tensor.dtype(), tensor.shape(), xxh64(tensor.bytes())};
    constexpr size_t kBlock = 4096;
    const std::span<const float> values = tensor.values<float>();
    std::array<float, kBlock> block;
    uint64_t hash = 0;
    for (size_t begin = 0; begin < values.size(); begin += kBlock) {
      const size_t size = std::min(kBlock, values.size() - begin);
      for (size_t i = 0; i < size; ++i) block[i] = values[begin + i] + 0.0F;
      hash = xxh64(std::as_bytes(std::span(block).first(size)), hash);
    }
    return {tensor.dtype(), tensor.shape(), hash};
  }
  bool operator==(const Digest&) const = default;
};

/// By node and operand.
using Digests = std::map<std::pair<std::string, std::string>, Digest>;

/// Observes operands that have a format, rounded, and outputs.
class Observer {
 public:
  explicit Observer(const Graph& graph, bool shows_progress)
      : output_(graph.nodes().back().name), observed_(Observation::of_none()) {
    for (const Node& node : graph.nodes())
      for (const auto& [operand, quantizer] : node.quantization)
        observed_.operands->emplace(node.name, operand);
    progress_.emplace("comparing with integer execution, nodes", 2 * std::ssize(*observed_.operands),
                      Progress::Options{.shown = shows_progress});
  }

  Digests run(const Program& program, std::span<const Tensor> inputs) {
    Digests digests;
    observed_.see = [&](const Node& node, std::string_view operand, const Tensor& value) {
      seen_.emplace(&program, node.name, operand);
      progress_->update(std::ssize(seen_), node.name);
      digests.insert_or_assign({node.name, std::string(operand)}, Digest::of(value));
    };
    outputs_ = program.run(inputs, observed_);
    for (size_t i = 0; i < outputs_.size(); ++i)
      digests.insert_or_assign({output_, fmt::format("data_in_{}", i)}, Digest::of(outputs_[i]));
    return digests;
  }

  /// Outputs of the last run.
  const std::vector<Tensor>& outputs() const { return outputs_; }

 private:
  std::string output_;
  Observation observed_;
  std::set<std::tuple<const Program*, std::string, std::string>> seen_;
  std::optional<Progress> progress_;
  std::vector<Tensor> outputs_;
};

/// Samples one by one where they may run alone: what is inside a network then takes little memory.
std::vector<std::vector<Tensor>> one_by_one(const Graph& graph, std::vector<Tensor> inputs) {
  if (fixed_samples(graph)) return {std::move(inputs)};
  const int64_t samples = inputs.front().dim(0);
  std::vector<std::vector<Tensor>> single;
  for (int64_t i = 0; i < samples; ++i) {
    std::vector<Tensor>& sample = single.emplace_back();
    for (const Tensor& input : inputs) sample.push_back(input.rows(i, i + 1));
  }
  return single;
}

/// Whether a node, also in the body of a loop, rounds what it reads or gives.
bool rounds_values(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    const bool rounds = std::ranges::any_of(
        node.quantization, [](const auto& entry) { return entry.first.starts_with("data_"); });
    return rounds || (node.body != nullptr && rounds_values(*node.body));
  });
}

void check_equal(const Digests& integers, const Digests& simulation) {
  for (const auto& [operand, digest] : simulation) {
    const auto found = integers.find(operand);
    if (found != integers.end() && found->second == digest) continue;
    DETENT_CHECK(false, "node {}, operand {}: simulation and integer execution differ", operand.first,
                 operand.second);
  }
}

}  // namespace

std::vector<Tensor> first_inputs(const Graph& graph, const Dataset& dataset, int64_t count,
                                 double most_products) {
  const auto first = [&](int64_t samples) {
    std::vector<int64_t> indices = sequential_order(std::min(samples, dataset.size()));
    indices.resize(static_cast<size_t>(dataset.same_size_end(indices, 0, std::ssize(indices))));
    return dataset.batch(indices).inputs;
  };
  if (const std::optional<int64_t> fixed = fixed_samples(graph)) return first(*fixed);
  const double products = multiply_adds(graph, sizes_of(graph, first(1)));
  return first(affordable_samples(count, products, most_products));
}

CheckedIntegers check_integers(const Graph& graph, const Dataset& dataset,
                               const IntegerCheckOptions& options) {
  if (!rounds_values(graph)) return {"none: weights alone are quantized"};
  constexpr double kMostProducts = 2e9;  // the plain reference takes some seconds for that
  const std::vector<Tensor> inputs = first_inputs(graph, dataset, kCheckedSamples, kMostProducts);
  constexpr double kLargestBatch = 10 * kMostProducts;
  if (const double products = multiply_adds(graph, sizes_of(graph, inputs)); products > kLargestBatch)
    return {fmt::format("not compared: a batch of {} samples takes {:.2g} multiply-accumulates",
                        inputs.front().dim(0), products)};
  std::optional<IntegerProgram> integers;
  try {
    check_integer_execution(graph);
    integers.emplace(graph);
  } catch (const Error& error) {
    return {fmt::format("not possible: {}", error.what())};
  }
  const std::vector<std::vector<Tensor>> batches = one_by_one(graph, inputs);
  Observer observer(graph, options.shows_progress);
  std::vector<Digests> actual;
  for (const std::vector<Tensor>& batch : batches) actual.push_back(observer.run(*integers, batch));
  integers.reset();  // as large as the other
  const FastProgram program(graph);
  size_t tensors = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    const Digests simulated = observer.run(program, batches[i]);
    check_equal(actual[i], simulated);
    tensors = simulated.size();
    const std::vector<Tensor> fast = program.run(batches[i]);
    for (size_t k = 0; k < fast.size(); ++k) {
      DETENT_CHECK(Digest::of(fast[k]) == Digest::of(observer.outputs()[k]),
                   "output {}: simulation and the fast engine differ", k);
    }
  }
  return {fmt::format("{} samples, {} tensors, all integers equal fake quantization", inputs.front().dim(0),
                      tensors),
          options.names_slow_steps ? slow_steps_text(program.profile(inputs, 1)) : ""};
}

}  // namespace detent
