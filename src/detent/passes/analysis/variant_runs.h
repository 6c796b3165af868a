#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/executor.h"
#include "detent/graph/graph.h"
#include "detent/passes/staged_runs/executor_in_parts.h"

namespace detent {

/// A variant: a network with the nodes of another, equal to it before the node `first`.
struct Variant {
  Graph graph;
  size_t first = 0;
  /// The number of the other one where that is a variant too, which begins to differ at an earlier node.
  std::optional<size_t> parent = {};
};

/// Runs a network and variants of it, each only from its first difference on; the common part is computed
/// once. n evenly spread variants cost n / 2 runs.
class VariantRuns {
 public:
  /// `base` must outlive this.
  /// Looks at the network's output number `output`, which is the first result of a node.
  explicit VariantRuns(const Graph& base, size_t output = 0);

  /// The first is number 0. Of its graph only the part that differs is kept.
  void add(const Variant& variant);
  /// How many parts were compiled.
  int64_t compiled() const { return kept_->compiled; }

  /// That output, after `visit` has seen that of each variant, from several threads unless inside
  /// parallel_for. `program` is what `executor` makes of the network, the same in each run.
  Tensor run(std::span<const Tensor> inputs, const Program& program, const Executor& executor,
             const std::function<void(size_t variant, const Tensor& output)>& visit) const;

 private:
  struct Part {
    size_t variant;
    size_t first;
    Graph graph;  // from its first node on
    /// Quantizers of the network's inputs that have one.
    std::map<std::string, Quantizer, std::less<>> input_quantizers;
  };

  /// Shared state of the runs of one call.
  struct Call {
    std::span<const Tensor> inputs;
    const CompiledGraph base;
    const Executor& executor;
    const std::function<void(size_t variant, const Tensor& output)>& visit;
  };
  using Values = std::map<std::string, Tensor, std::less<>>;
  /// The parts that begin at each position, of variants of one network.
  using Parts = std::map<size_t, std::vector<Part>>;

  /// Programs of parts, by variant, for further runs; of networks so large that compiling them is little
  /// beside running them, few.
  struct KeptPrograms {
    std::mutex mutex = {};
    std::map<size_t, std::shared_ptr<const Program>> programs = {};
    int64_t bytes = 0;
    int64_t compiled = 0;
  };
  std::shared_ptr<const Program> program_of(const Call& call, const Part& part) const;
  void run_part(const Call& call, const Part& part, const Values& values) const;
  /// Sees what nodes leave while a network runs: runs the parts that begin there, and keeps in `values` what
  /// later ones read.
  void pass(const Call& call, const Parts& parts, const Node& node, const Tensor& value,
            Values& values) const;

  const Graph& base_;
  const GraphCut cut_;
  size_t output_;
  Parts of_base_;
  std::vector<Parts> of_variants_;  // of each
  std::vector<size_t> begins_;      // where each begins to differ
  Observation::Operands observed_;  // where parts begin, and what they read
  std::unique_ptr<KeptPrograms> kept_ = std::make_unique<KeptPrograms>();
};

}  // namespace detent
