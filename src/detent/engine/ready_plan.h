#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/engine/program_plan.h"
#include "detent/engine/step.h"
#include "detent/inference/flow.h"

namespace detent {

class ReadyPlan;

/// Minimum time of each step over some runs, in the order of the first.
class StepTimes {
 public:
  struct Step {
    const EngineStep* step;
    double seconds;
  };

  /// The plan, whose steps will be noted, stays.
  void keep(std::shared_ptr<const ReadyPlan> plan) { plans_.push_back(std::move(plan)); }
  void note(const EngineStep& step, double seconds);
  const std::vector<Step>& steps() const { return steps_; }

 private:
  std::vector<Step> steps_;
  std::map<const EngineStep*, size_t> places_;
  std::vector<std::shared_ptr<const ReadyPlan>> plans_;
};

/// Memory that a run writes, kept for later ones.
struct RunMemory {
  Tensor arena;
  std::vector<Flow> flows;  // dropped
};

/// A plan with the memory of finished runs. Thread-safe.
class ReadyPlan : public std::enable_shared_from_this<ReadyPlan> {
 public:
  explicit ReadyPlan(ProgramPlan plan) : plan_(std::move(plan)) {}

  /// From flows of the plan's inputs to those of its outputs. `times` of a run that is not measured: nullptr.
  std::vector<Flow> run(std::vector<Flow> inputs, const Observation* observation, StepTimes* times) const;
  int64_t arena_bytes() const { return plan_.arena_bytes; }

 private:
  RunMemory take_memory() const;
  void give_back(RunMemory memory) const;

  const ProgramPlan plan_;
  mutable std::mutex mutex_;
  mutable std::vector<RunMemory> memories_;
};

}  // namespace detent
