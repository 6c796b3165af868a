#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "detent/core/process_group.h"
#include "detent/graph/executor.h"
#include "detent/graph/graph.h"
#include "detent/passes/analysis/variant_runs.h"
#include "detent/passes/calibration_set.h"
#include "detent/search/quality.h"

namespace detent {

/// Samples that networks are judged by; labels may be missing (-1).
struct JudgedSamples {
  std::shared_ptr<const CalibrationSet> inputs;
  std::vector<int64_t> labels;  // in the order of the inputs
};

/// Compares networks with the float network over the first samples. Micro-batches are cut by the network
/// alone and run on one thread each, and parts are added in their order: what comes out depends neither on
/// threads nor on processes. A network also runs with the least, the largest and random values of the range
/// of the samples: one that gives NaN or infinities for them, as float does not, is no candidate.
class Judge {
 public:
  /// Asked between micro-batches, from several threads: whether to give up.
  using Stop = std::function<bool()>;

  /// Runs the float network. Throws Error where no output can be compared.
  Judge(const Graph& network, const Executor& executor, JudgedSamples samples, int64_t count);

  int64_t samples() const { return count_; }
  bool has_labels() const { return reference_.labelled > 0; }
  const Quality& reference() const { return reference_; }
  /// The float network's time for all samples.
  double seconds() const { return seconds_; }

  /// Nothing once `stop` says so.
  std::optional<Quality> judge(const Graph& candidate, int64_t samples, const Stop& stop) const;

  /// The quality of `base`, then of each of its variants. What lies before a variant's first node is computed
  /// once. The workers of `group` take turns at the micro-batches.
  std::optional<std::vector<Quality>> judge_family(const Graph& base, const std::vector<Variant>& variants,
                                                   int64_t samples, const Stop& stop,
                                                   ProcessGroup& group) const;
  /// The same as means over the samples of what `kind` makes of them: of the accuracy the distortion, else
  /// the share of the noise. Variants are of `base` itself, of any number.
  std::optional<std::vector<double>> judge_variants(const Graph& base, const std::vector<Variant>& variants,
                                                    QualityKind kind, int64_t samples, const Stop& stop,
                                                    ProcessGroup& group) const;
  /// Variants that judge_family takes at once: each keeps a graph of its own.
  size_t family_size() const;

 private:
  struct Part {
    int64_t begin;
    int64_t end;
  };

  /// Micro-batches, then probes, whose positions follow those of the samples.
  std::vector<Part> parts(int64_t samples, int64_t size) const;
  std::vector<Tensor> inputs(const Part& part) const;
  void keep_inputs();
  void add_probes(const Program& program);
  Quality compare(const Part& part, const Tensor& output) const;

  Graph network_;
  const Executor& executor_;
  JudgedSamples samples_;
  int64_t count_;
  int64_t micro_batch_;
  size_t output_ = 0;
  bool classifies_ = false;
  size_t values_per_sample_ = 0;
  std::vector<double> expected_;  // compared values of the float network, of all samples
  std::vector<Tensor> kept_;      // inputs of all samples, where they are small
  std::vector<std::vector<Tensor>> probes_;
  Quality reference_;
  double seconds_ = 0;
};

}  // namespace detent
