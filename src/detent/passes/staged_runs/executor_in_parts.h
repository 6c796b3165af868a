#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detent/graph/executor.h"
#include "detent/graph/graph.h"
#include "detent/graph/operators.h"

namespace detent {

/// Cuts a network into parts that run by themselves. What does not begin with the batch, or has it elsewhere
/// too (sizes, tensors that the graph owns, windows of all samples), what is not float32, and what has
/// several results, is computed again in each part that reads it.
class GraphCut {
 public:
  /// `graph` must outlive this; its parameters and specs may change, its nodes may not.
  explicit GraphCut(const Graph& graph);

  /// Names of values computed before node `index` and read from there on, in alphabetical order.
  std::vector<std::string> read_from(size_t index) const;
  /// Whether a node reads that one.
  bool is_read(size_t position) const { return last_reader_[position] > 0; }
  /// Whether that node is among read_from(index).
  bool is_read_from(size_t position, size_t index) const;

  /// The part that computes `captured` from the values that `is_there` names, with a node of capture_name
  /// that reads each. Its placeholders are named as the values that it takes, in alphabetical order; its
  /// output is the last of `captured`.
  Graph part(const std::function<bool(const std::string&)>& is_there,
             const std::vector<NodeInput>& captured) const {
    return part_of(graph_, is_there, captured);
  }
  /// That part of a graph that differs from this one in parameters and specs alone.
  Graph part_of(const Graph& graph, const std::function<bool(const std::string&)>& is_there,
                const std::vector<NodeInput>& captured) const;

  std::string capture_name(size_t index) const;

 private:
  bool is_recomputed(const Node& node) const;
  void find_last_readers();

  const Graph& graph_;
  std::string captured_;  // how the names of such nodes begin
  ValueTypes values_;
  ValueTypes values_of_others_;              // of other sizes of what is open
  std::optional<ValueTypes> values_of_two_;  // samples
  std::vector<bool> is_recomputed_;          // by position
  std::vector<size_t> last_reader_;          // that reads the value, or computes again what reads it
};

/// Compiled networks duplicate their weights. This executor compiles them part by part during each run and
/// keeps none: bit-identical results, at the cost of compiling in every run. Threads at the same part share
/// it.
class ExecutorInParts final : public Executor {
 public:
  /// Networks whose weights take fewer bytes are compiled as a whole, as are those with several outputs or
  /// rounded inputs, and those of which parts would compute layers of others again (GraphCut).
  static constexpr int64_t kLeastBytes = int64_t{256} << 20;
  /// Weight limit of a part.
  static constexpr int64_t kPartBytes = int64_t{32} << 20;

  /// `whole` must outlive this and its programs.
  explicit ExecutorInParts(const Executor& whole, int64_t least_bytes = kLeastBytes,
                           int64_t part_bytes = kPartBytes)
      : whole_(whole), least_bytes_(least_bytes), part_bytes_(part_bytes) {}

  /// Where the network is cut, errors of the other executor show only when the program runs.
  std::unique_ptr<const Program> compile(const Graph& graph) const override;
  std::unique_ptr<const Program> compile_like(const Graph& graph, const CompiledGraph& other) const override;

  /// Weights, in bytes, of the largest part of such a network, or all of them.
  int64_t most_at_once(const Graph& graph) const;

 private:
  const Executor& whole_;
  int64_t least_bytes_;
  int64_t part_bytes_;
};

}  // namespace detent
