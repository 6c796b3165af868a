#include "detent/engine/ready_plan.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "detent/core/interruption.h"
#include "detent/core/parallel.h"

namespace detent {

void StepTimes::note(const EngineStep& step, double seconds) {
  const auto [place, is_new] = places_.emplace(&step, steps_.size());
  if (is_new) steps_.push_back({&step, seconds});
  double& least = steps_[place->second].seconds;
  least = std::min(least, seconds);
}

RunMemory ReadyPlan::take_memory() const {
  {
    const std::lock_guard lock(mutex_);
    if (!memories_.empty()) {
      RunMemory memory = std::move(memories_.back());
      memories_.pop_back();
      return memory;
    }
  }
  RunMemory memory{unfilled_tensor(DType::kUInt8, {std::max<int64_t>(plan_.arena_bytes, 1)}),
                   std::vector<Flow>(plan_.flow_count)};
  RunState state{.places = plan_.places,
                 .arena = memory.arena.bytes().data(),
                 .flows = std::vector<Flow>(plan_.flow_count)};
  for (const auto& step : plan_.steps) {
    if (step->is_known || step->is_once) step->run(state);
  }
  return memory;
}

void ReadyPlan::give_back(RunMemory memory) const {
  for (Flow& flow : memory.flows) flow.drop();
  const std::lock_guard lock(mutex_);
  memories_.push_back(std::move(memory));
}

std::vector<Flow> ReadyPlan::run(std::vector<Flow> inputs, const Observation* observation,
                                 StepTimes* times) const {
  using Clock = std::chrono::steady_clock;
  if (times != nullptr) times->keep(shared_from_this());
  RunMemory memory = take_memory();
  RunState state{.places = plan_.places,
                 .arena = memory.arena.bytes().data(),
                 .flows = std::move(memory.flows),
                 .threads = in_parallel_for() ? 1 : thread_count(),
                 .observation = observation,
                 .times = times};
  for (size_t i = 0; i < inputs.size(); ++i) state.flows[plan_.inputs[i]] = std::move(inputs[i]);
  for (const auto& step : plan_.steps) {
    check_interruption();
    const Clock::time_point start = times == nullptr ? Clock::time_point() : Clock::now();
    if (!step->is_once) step->run(state);
    for (const size_t flow : step->dropped_flows) state.flows[flow].drop();
    if (step->is_once) continue;
    if (times != nullptr && !step->has_plan())
      times->note(*step, std::chrono::duration<double>(Clock::now() - start).count());
  }
  check_interruption();  // of the last step
  std::vector<Flow> outputs;
  for (const size_t flow : plan_.outputs) outputs.push_back(state.flows[flow]);
  memory.flows = std::move(state.flows);
  give_back(std::move(memory));
  return outputs;
}

}  // namespace detent
