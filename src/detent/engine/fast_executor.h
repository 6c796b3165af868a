#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "detent/graph/executor.h"

namespace detent {

/// One step of a program, as measured by FastProgram::profile().
struct StepProfile {
  std::string nodes;
  std::string kernel;
  std::string why = {};  // no faster kernel
  double products = 0;
  bool multiplies_floats = false;
  int64_t bytes = 0;   // read and written, weights included
  double seconds = 0;  // the least of the runs

  /// Whether it has no kernel: the reference, or a function for any element type, computes it.
  bool is_slow() const { return kernel == "reference" || kernel == "float"; }
};

/// A line that names the slowest steps without a kernel, where these take more than a tenth of a run of at
/// least a millisecond; else "".
std::string slow_steps_text(std::span<const StepProfile> steps);

/// Runs a quantized graph in integers as fast as the processor can: codes of 8 bits as bytes, channels last,
/// and a layer with what follows on it in one kernel. The results are those of the plain reference
/// (inference/integer_executor.h), byte for byte, whatever the instruction set and the number of threads.
/// A step without a kernel is computed as the reference does, within the same program.
///
/// Thread-safe; each run takes its own memory, which later runs reuse. Programs share threads: a run that
/// finds them busy computes alone.
class FastProgram final : public Program {
 public:
  /// Frees the weights of a moved graph as they are packed. Throws Error as IntegerProgram does.
  explicit FastProgram(Graph graph);
  /// The same; nodes that `other_graph` has too share the packed weights of `other`, which was made of it.
  FastProgram(Graph graph, const Graph& other_graph, const FastProgram& other);
  ~FastProgram() override;

  /// Observed nodes are not fused; results are the same as without. Observers are called between steps, and
  /// shown nodes without the weights that are packed.
  std::vector<Tensor> run(std::span<const Tensor> inputs, const Observation& observation = {}) const override;

  /// Time of each step in the fastest of `runs` runs.
  std::vector<StepProfile> profile(std::span<const Tensor> inputs, int runs) const;

  /// Bytes of the packed weights, and of what the values of one run take for inputs of these shapes.
  int64_t weight_bytes() const;
  int64_t arena_bytes(std::span<const Tensor> inputs) const;

  /// Instruction set of the kernels.
  std::string target() const;

 private:
  struct Compiled;
  std::unique_ptr<const Compiled> compiled_;
};

class FastExecutor final : public Executor {
 public:
  std::unique_ptr<const Program> compile(const Graph& graph) const override {
    return std::make_unique<FastProgram>(graph);
  }
  std::unique_ptr<const Program> compile_like(const Graph& graph, const CompiledGraph& other) const override;
};

}  // namespace detent
