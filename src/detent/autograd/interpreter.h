#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "detent/autograd/folded_layer.h"
#include "detent/autograd/owned_rounding.h"
#include "detent/graph/executor.h"
#include "detent/graph/graph.h"
#include "detent/operators/autograd.h"

namespace detent {

/// As OperandObserver, with libtorch tensors.
using TorchObserver =
    std::function<void(const Node& node, std::string_view operand, const at::Tensor& value)>;

/// Runs a graph on libtorch, node by node, to train it: with gradients, batch statistics, dropout, and the
/// quantization its operands ask for, of parameters in each run. Its parameters are the graph's own memory:
/// an optimizer that steps them changes the graph. It computes in float; what a graph with requantization
/// computes in integers, and any network that is not trained, engine and reference do.
class Interpreter {
 public:
  /// Verifies the graph, which must outlive the interpreter and keep its nodes.
  explicit Interpreter(const Graph& graph);
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// Inputs in the order of the placeholders, of their types. Returns the outputs. Throws Error naming the
  /// node where the inputs or a format do not fit.
  std::vector<at::Tensor> outputs(const std::vector<at::Tensor>& inputs, const TorchObserver& observe = {},
                                  ObservedValues values = ObservedValues::kAfterQuantization) const;
  /// The first of them, with the next seed for stochastic formats.
  at::Tensor run(const std::vector<at::Tensor>& inputs, const TorchObserver& observe = {},
                 ObservedValues values = ObservedValues::kAfterQuantization);
  at::Tensor run(const at::Tensor& input) { return run(std::vector<at::Tensor>{input}); }

  /// Leaves with gradients, by their key in the state_dict, in node order, tied weights once.
  std::vector<std::pair<std::string, at::Tensor>> named_trainable_parameters() const;
  /// The same without names.
  std::vector<at::Tensor> trainable_parameters() const;

  /// Which of named_trainable_parameters belong to quantizers ("fc.weight_scale").
  std::vector<std::string> quantizer_parameter_names() const;

  /// After the graph's quantizers got other specs: uses these. What they own stays.
  void update_quantizers();
  /// Whether running statistics are used as they are, as in inference, instead of the batch's.
  void freeze_running_statistics(bool frozen) { statistics_are_frozen_ = frozen; }
  /// Whether values are rounded; not, for a beginning in float.
  void set_rounding(bool rounds) { rounds_ = rounds; }
  /// With several workers: how batch norm, and those quantizers that observe, see the samples of
  /// all; {}: not any more. A worker that has no samples of a batch, which no graph with batch norm allows,
  /// calls observe_without_samples() instead of running.
  void gather_over_workers(GatherSamples gather) { gather_ = std::move(gather); }
  void observe_without_samples();
  /// Whether any quantizer still observes.
  bool is_observing() const;
  /// The observers of the graph's quantizers, in node order, which runs move on. The graph's own stay as they
  /// were; see store_observers.
  std::vector<ScaleObserver*> observers() { return observers_in_order_; }
  /// Puts the observers as they are now into `graph`, the one that is trained. Those that are done go.
  void store_observers(Graph& graph) const;

  /// Runs so far, which seed stochastic formats: a training that is resumed sets it.
  uint64_t run_count() const { return run_count_; }
  void set_run_count(uint64_t count) { run_count_ = count; }

 private:
  /// Where an input comes from.
  struct Source {
    std::optional<size_t> value;  // its place; none: the constant, or nothing
    Flow constant;
    std::string operand;
    bool is_rounded = false;  // by the same quantizer, where it was computed
  };

  /// How an operand is rounded.
  struct Rounding {
    TrainedQuantizer quantizer;
    bool is_of_samples = false;  // not of a parameter
  };

  struct Step {
    const Node* node = nullptr;
    Evaluator evaluate = nullptr;
    std::vector<Source> inputs;
    std::vector<std::pair<std::string_view, at::Tensor>> parameters;
    std::vector<std::pair<std::string, at::Tensor>> owned_by_quantizers;  // as "weight_scale"
    std::map<std::string, Rounding, std::less<>> roundings;               // by operand
    size_t first_value = 0;                                               // places of its results
    std::vector<std::string> results;                                     // their operand names
    bool keeps_rounding = false;    // results are values of their quantizer already
    std::vector<size_t> last_read;  // places of values that nobody reads after this step
    FoldedNorm norm;                // of a layer that takes one up
    bool passes_on = false;         // a norm that the layer before has taken up
  };

  /// Whether the node's results are its inputs' elements, or zeros, and one quantizer rounds both.
  static bool keeps_rounding(const Node& node);
  Step make_step(const Node& node);
  at::Tensor leaf_of(const Parameter& parameter);
  Rounding make_rounding(const Node& node, const std::string& operand);
  ScaleObserver* observer_of(const Quantizer& quantizer);
  Source make_source(const Node& node, size_t input) const;
  /// Values that the observer of one run is to see.
  struct Observation {
    const TorchObserver& observe;
    ObservedValues values;

    void see(ObservedValues these, const Node& node, std::string_view operand,
             const at::Tensor& value) const {
      if (observe && values == these) observe(node, operand, value);
    }
  };

  void find_last_reads();
  Flow input_of(const Step& step, const Source& source, std::vector<Flow>& values,
                const Observation& observation) const;
  std::vector<Flow> run_step(const Step& step, std::vector<Flow>& values,
                             const Observation& observation) const;
  /// Without its inputs.
  Evaluation evaluation_of(const Step& step) const;
  void take_up_norms();
  Flow evaluated_with_norm(const Step& step, Evaluation evaluation) const;
  Flow placeholder_value(const Node& node, const at::Tensor& input, NamedSizes& sizes) const;
  at::Tensor quantized(const Step& step, std::string_view operand, const at::Tensor& value) const;

  const Graph& graph_;
  std::vector<Step> steps_;
  size_t value_count_ = 0;
  std::unordered_map<std::string, size_t> places_;  // by value_name
  std::unordered_map<const Parameter*, at::Tensor> leaves_;
  bool statistics_are_frozen_ = false;
  bool rounds_ = true;
  GatherSamples gather_;
  std::unordered_map<const Quantizer*, ScaleObserver> observers_;
  std::vector<ScaleObserver*> observers_in_order_;
  uint64_t run_count_ = 0;  // seeds stochastic formats
};

}  // namespace detent
