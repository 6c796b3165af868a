#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Sees the float32 tensors of every node while a graph runs: before the node its inputs ("data_in_0", ...),
/// after it its results ("data_out_0", ...). The tensor is only valid during the call.
using OperandObserver = std::function<void(const Node& node, std::string_view operand, const Tensor& value)>;

/// Which values an observer sees of an operand that has a format: those that come, or those that the format
/// leaves of them, which is what the node computes with and what its readers get. A result comes as the node
/// computes it from its quantized operands; of a sum of integer products that is the sum in units of its
/// scale. Without a format both are the same.
enum class ObservedValues { kBeforeQuantization, kAfterQuantization };
constexpr std::array<const char*, 2> enum_names(ObservedValues) {
  return {"before_quantization", "after_quantization"};
}

/// Intermediate values that a run shows.
struct Observation {
  using Operands = std::set<std::pair<std::string, std::string>>;  // node and operand

  OperandObserver see = {};  // none: nothing
  ObservedValues values = ObservedValues::kAfterQuantization;
  /// None: all there are. A fast program computes those that are not here as if nobody looked.
  std::optional<Operands> operands = {};

  /// Shows none so far.
  static Observation of_none(ObservedValues values = ObservedValues::kAfterQuantization) {
    return {{}, values, Operands()};
  }
  bool shows(const std::string& node, const std::string& operand) const {
    return see != nullptr && (!operands || operands->contains({node, operand}));
  }
};

/// A graph that was checked and made ready to run: its parameters are quantized. Later changes of the graph
/// do not show. Several threads may run it at once. Inside parallel_for a run takes the calling thread alone.
class Program {
 public:
  virtual ~Program() = default;
  /// Inputs in the order of the placeholders. Returns the outputs in the order in which the output node reads
  /// them. Throws Error naming the node where the inputs or a format do not fit.
  virtual std::vector<Tensor> run(std::span<const Tensor> inputs,
                                  const Observation& observation = {}) const = 0;
};

/// Anything that runs graphs in inference mode: the fast engine, the plain reference.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Throws Error as `verify` does, and where this executor cannot run the graph.
  virtual std::unique_ptr<const Program> compile(const Graph& graph) const = 0;

  /// Compiles and runs once: the first output. What runs a graph more than once should keep the program.
  Tensor run(const Graph& graph, std::span<const Tensor> inputs, const Observation& observation = {}) const {
    return compile(graph)->run(inputs, observation).at(0);
  }
};

}  // namespace detent
