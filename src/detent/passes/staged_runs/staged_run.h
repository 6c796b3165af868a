#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/core/tensor.h"
#include "detent/passes/pass.h"
#include "detent/passes/staged_runs/executor_in_parts.h"
#include "detent/passes/staged_runs/spilled_tensors.h"

namespace detent {

/// Common options of passes that use a layer's inputs.
struct CalibrationInputOptions {
  int64_t num_samples = 1024;
  int64_t memory_budget = 512;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("num_samples", self.num_samples, "training samples to run", Between{1, 1e15});
    visit("memory_budget", self.memory_budget, "MiB of activations kept in memory; the others wait in a file",
          Between{0, 1e9});
  }
};

/// The calibration samples in micro-batches of 64, or of as many as the network takes, whatever the batch
/// size: kernels may round differently for batches of different sizes.
class CalibrationBatches {
 public:
  /// Throws Error without samples; warns if there are fewer than requested.
  CalibrationBatches(const Graph& graph, const CalibrationInputOptions& options, const PassContext& context);

  int64_t count() const;
  /// A tensor per input of the network.
  std::vector<Tensor> inputs(int64_t index) const;

 private:
  std::unique_ptr<CalibrationSet> data_;
  std::vector<SampleRange> batches_;
};

/// `value` as the node sees it: quantized if that operand has a spec. Throws Error, beginning with `where`,
/// on a learned scale.
Tensor quantized_operand(const Node& node, std::string_view operand, const Tensor& value,
                         const std::string& where);

/// Runs a network over the calibration samples in stages, from one layer's inputs to the next's, so that a
/// layer can change before later layers run. Between stages only values that later layers read are kept.
class StagedRun {
 public:
  /// `graph` must outlive this; between calls its parameters and specs may change, its nodes may not.
  StagedRun(const Graph& graph, const CalibrationInputOptions& options, PassContext& context);

  /// Visits input 0 of node `index`, before it is quantized, in micro-batches. Runs the nodes before it as
  /// they are now. From call to call `index` must not decrease.
  void inputs_of(size_t index, const std::function<void(const Tensor& input)>& visit);
  /// The same in two steps: runs the nodes before; then what node `index` takes, by micro-batch.
  void advance_to(size_t index);
  Tensor input(int64_t batch) const;
  int64_t batch_count() const { return batches_; }

  int64_t spilled_bytes() const { return values_.spilled_bytes(); }

 private:
  void compute(const std::vector<NodeInput>& captured);

  const Graph& graph_;
  PassContext& context_;
  GraphCut cut_;
  int64_t batches_ = 0;
  size_t position_ = 0;
  std::string input_name_;  // under which the values wait that the node there takes
  SpilledTensors values_;
};

}  // namespace detent
