#include "detent/engine/step_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace detent {

std::string slow_steps_text(std::span<const StepProfile> steps) {
  constexpr double kShare = 0.1;
  constexpr double kLeastSeconds = 1e-3;
  constexpr size_t kMostNamed = 3;
  double all = 0;
  double of_slow = 0;
  std::vector<const StepProfile*> slow;
  for (const StepProfile& step : steps) {
    all += step.seconds;
    if (!step.is_slow()) continue;
    of_slow += step.seconds;
    slow.push_back(&step);
  }
  if (all < kLeastSeconds || of_slow <= kShare * all) return "";
  std::ranges::stable_sort(slow, std::greater(), &StepProfile::seconds);
  std::string names;
  for (size_t i = 0; i < std::min(slow.size(), kMostNamed); ++i)
    names += fmt::format("{}{} ({})", i == 0 ? "" : ", ", slow[i]->nodes, slow[i]->why);
  return fmt::format("{:.0f} % of a run is spent in {} node{} without a fast kernel: {}{}",
                     100 * of_slow / all, slow.size(), slow.size() == 1 ? "" : "s", names,
                     slow.size() > kMostNamed ? ", ..." : "");
}

}  // namespace detent
