#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "detent/graph/executor.h"
#include "detent/graph/graph.h"
#include "detent/inference/code_type.h"
#include "detent/inference/node_form.h"

namespace detent {

struct ReferencePlan;

/// A node's result in integers: int32 codes of a type, or, without one, the 32-bit sums of a layer whose
/// result is float, sum * sums->scale[channel]; `sums` lives as long as the program. Only valid during the
/// call.
struct IntegerResult {
  const Tensor& integers;
  std::optional<CodeType> type;
  const SumForm* sums = nullptr;
};
using IntegerObserver = std::function<void(const Node& node, const IntegerResult& result)>;

/// Runs any graph, without libtorch: in integers as its requantization says (codes of at most 16 bits, 32-bit
/// sums), and the rest in float32 with values rounded to the formats of their quantizers. A slow and plain
/// reference, that other ways of running the graph are held to. Its results are the same for any number of
/// threads.
///
/// Inputs become codes where the first node takes them in. Nodes without an integer form compute in float on
/// the values of codes (the layer float32), and their results become codes again where a quantizer says so
/// (inference/plan.h).
class IntegerProgram final : public Program {
 public:
  /// Proves from the weights and the ranges of the codes that no sum can overflow. Throws Error naming the
  /// node where one could.
  explicit IntegerProgram(const Graph& graph);
  ~IntegerProgram() override;

  /// Observers see values of codes. Throws Error where a value that is to become a code is NaN.
  std::vector<Tensor> run(std::span<const Tensor> inputs, const Observation& observation = {}) const override;

  /// The same with an observer of the results that are integers.
  std::vector<Tensor> run_observed(std::span<const Tensor> inputs, const Observation& observation,
                                   const IntegerObserver& observe_integers) const;

  /// Largest magnitude that a sum of the node can reach; 0 of nodes that have none.
  int64_t sum_bound(std::string_view node) const;

 private:
  std::unique_ptr<const ReferencePlan> plan_;  // inference/reference_step.h
};

/// Throws Error where the graph has quantizers of training, or of a simulation, that nothing made ready for
/// execution.
void check_finished_quantizers(const Graph& graph);
/// Throws Error, naming the operand, where integer execution would be a simulation: the graph has quantizers
/// of training, or an operand a format without codes.
void check_integer_execution(const Graph& graph);

class IntegerExecutor final : public Executor {
 public:
  std::unique_ptr<const Program> compile(const Graph& graph) const override {
    return std::make_unique<IntegerProgram>(graph);
  }
};

}  // namespace detent
