#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "detent/execution/evaluators/evaluator.h"
#include "detent/execution/integer_simulation.h"
#include "detent/graph/executor.h"
#include "detent/graph/graph.h"

namespace detent {

/// As OperandObserver, with libtorch tensors.
using TorchObserver =
    std::function<void(const Node& node, std::string_view operand, const at::Tensor& value)>;

/// Runs a graph on libtorch, node by node, with the quantization its operands ask for; in inference, of a
/// graph with requantization, with the results of integer execution to the last bit. Its parameters are the
/// graph's own memory: an optimizer that steps them changes the graph.
class Interpreter {
 public:
  enum class Mode {
    kInference,  // no gradients; parameters are quantized once, so they must not change while it lives
    kTraining,   // gradients; batch statistics and dropout as in training; parameters quantized at each run
  };

  /// Verifies the graph, which must outlive the interpreter and keep its nodes.
  explicit Interpreter(const Graph& graph, Mode mode = Mode::kInference);

  /// Inputs in the order of the placeholders, batch first, float32. Throws Error naming the node where the
  /// inputs or a format do not fit.
  at::Tensor run(const std::vector<at::Tensor>& inputs, const TorchObserver& observe = {},
                 ObservedValues values = ObservedValues::kAfterQuantization);
  at::Tensor run(const at::Tensor& input) { return run(std::vector<at::Tensor>{input}); }

  /// Leaves with gradients, by their key in the state_dict, in node order; only in training mode.
  std::vector<std::pair<std::string, at::Tensor>> named_trainable_parameters() const;
  /// The same without names.
  std::vector<at::Tensor> trainable_parameters() const;

  /// Runs in training mode so far, which seed stochastic formats: a training that is resumed sets it.
  uint64_t run_count() const { return run_count_; }
  void set_run_count(uint64_t count) { run_count_ = count; }

 private:
  struct Step {
    const Node* node = nullptr;
    Evaluator evaluate = nullptr;
    std::optional<IntegerSimulation> integers;  // evaluates instead
    std::vector<int> sources;                   // index of the step that gives input i, or -1: a constant
    std::vector<Flow> constants;                // used where the source is -1
    std::vector<std::pair<std::string_view, at::Tensor>> parameters;
    std::vector<int> last_readers_of;  // steps whose result nobody reads after this one
  };

  Step make_step(const Node& node, const std::map<std::string_view, int>& index) const;
  /// What the observer of one run is to see.
  struct Observation {
    const TorchObserver& observe;
    ObservedValues values;

    void see(ObservedValues these, const Node& node, std::string_view operand,
             const at::Tensor& value) const {
      if (observe && values == these) observe(node, operand, value);
    }
  };

  Flow run_step(const Step& step, const std::vector<Flow>& results, const Observation& observation) const;
  at::Tensor quantized(const Step& step, std::string_view operand, const at::Tensor& value) const;

  const Graph& graph_;
  Mode mode_;
  std::vector<Step> steps_;
  uint64_t run_count_ = 0;  // seeds stochastic formats in training; inference always draws the same
};

/// The Executor that passes use: an Interpreter in inference mode a run.
class TorchExecutor : public Executor {
 public:
  Tensor run(const Graph& graph, std::span<const Tensor> inputs, const OperandObserver& observe = {},
             ObservedValues values = ObservedValues::kAfterQuantization) override;
};

}  // namespace detent
