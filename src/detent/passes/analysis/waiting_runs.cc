#include "detent/passes/analysis/waiting_runs.h"

#include "detent/core/parallel.h"
#include "detent/passes/analysis/network_cost.h"

namespace detent {

int64_t runs_at_once(const Graph& graph) {
  constexpr int64_t kMostWeights = int64_t{128} << 20;
  return in_parallel_for() || parameter_bytes(graph) > kMostWeights ? 1 : thread_count();
}

void run_at_once(int64_t count, const std::function<void(size_t)>& run) {
  if (count == 1) return run(0);
  parallel_for(count, 1, [&](int64_t i, int64_t) { run(static_cast<size_t>(i)); });
}

}  // namespace detent
