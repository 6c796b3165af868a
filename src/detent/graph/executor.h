#pragma once

#include <array>
#include <functional>
#include <map>
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

/// Which values an observer sees of a quantized operand: before rounding, or after, which is what the node
/// computes with and its consumers get. A result before rounding is computed from quantized operands; a sum
/// of integer products is given in units of its scale. Without a format both are the same.
enum class ObservedValues { kBeforeQuantization, kAfterQuantization };
constexpr std::array<const char*, 2> enum_names(ObservedValues) {
  return {"before_quantization", "after_quantization"};
}

/// Intermediate values that a run reports.
struct Observation {
  using Operands = std::set<std::pair<std::string, std::string>>;  // node and operand

  OperandObserver see = {};  // none: nothing
  ObservedValues values = ObservedValues::kAfterQuantization;
  /// nullopt: all. A fast program computes other nodes as if unobserved.
  std::optional<Operands> operands = {};
  /// Whether the elements of a sample may come in any order, which spares a fast program a copy.
  bool in_any_order = false;
  /// For the bodies of loops, by the loop's name; none: nothing.
  std::map<std::string, std::shared_ptr<const Observation>, std::less<>> in_bodies = {};

  /// Reports none yet.
  static Observation of_none(ObservedValues values = ObservedValues::kAfterQuantization) {
    return {{}, values, Operands()};
  }
  bool shows(const std::string& node, const std::string& operand) const {
    return see != nullptr && (!operands || operands->contains({node, operand}));
  }
  /// For each iteration of a loop.
  Observation in_body(const std::string& loop) const {
    const auto found = in_bodies.find(loop);
    return found == in_bodies.end() ? Observation() : *found->second;
  }
};

/// A checked graph with quantized parameters, ready to run. It does not see later changes of the graph.
/// Thread-safe. Inside parallel_for a run uses the calling thread alone.
class Program {
 public:
  virtual ~Program() = default;
  /// Inputs in the order of the placeholders; outputs in the order of the output node. Throws Error naming
  /// the node if inputs or a format do not fit.
  virtual std::vector<Tensor> run(std::span<const Tensor> inputs,
                                  const Observation& observation = {}) const = 0;
};

/// A graph and the program that an executor has made of it.
struct CompiledGraph {
  const Graph& graph;
  const Program& program;
};

/// Runs graphs in inference mode: the fast engine, the plain reference.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Throws the errors of `verify`, and if this executor cannot run the graph.
  virtual std::unique_ptr<const Program> compile(const Graph& graph) const = 0;
  /// The same. Nodes that the other graph has too, with parameters that share storage with theirs, may share
  /// what this executor has made of them.
  virtual std::unique_ptr<const Program> compile_like(const Graph& graph,
                                                      const CompiledGraph& /*other*/) const {
    return compile(graph);
  }

  /// Compiles and runs once; returns the first output. To run repeatedly, keep the program.
  Tensor run(const Graph& graph, std::span<const Tensor> inputs, const Observation& observation = {}) const {
    return compile(graph)->run(inputs, observation).at(0);
  }
};

}  // namespace detent
