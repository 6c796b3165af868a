#include "detent/search/winners.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/passes/pass.h"

namespace detent {
Winners::Winners(Study& study, const SearchOptions& options, const PassContext& context)
    : study_(study), context_(context.quiet()), warn_(context.warn), passes_(passes_of(options.improve)) {
  if (options.winners == 0) passes_ = Table();
  context_.group = &single_process();  // each worker for itself, so that one may do what another has done
  for (const auto& [name, given] : passes_)
    rounds_ = rounds_ || find_pass(name).stage == PassStage::kRoundingWeights;
  set_samples(options.num_samples);
}

void Winners::set_samples(int64_t samples) {
  for (auto& [name, given] : passes_) {
    if (has_option(find_pass(name), "num_samples")) given = Table{{"num_samples", samples}};
  }
}

std::string Winners::journal_prefix() const {
  return fmt::format("improved {} ", fmt::join(passes_.keys(), ","));
}

void Winners::recall() {
  for (const Trial& trial : study_.journaled(journal_prefix(), true)) {
    const bool is_known = find_improved(trial.assignment) != nullptr;
    if (!is_known && study_.best() != nullptr && study_.is_better(trial, *study_.best()))
      study_.add_improved(trial);
  }
}

Graph Winners::network(const Assignment& assignment) {
  const auto known = networks_.find(assignment);
  if (known != networks_.end()) return known->second;
  Graph graph = rounds_ ? study_.networks().make_unrounded(assignment) : study_.networks().make(assignment);
  PassContext context = context_;
  context.float_network = std::make_shared<const Graph>(study_.networks().network());
  run_pipeline(graph, passes_, "--improve", context);
  return networks_.emplace(assignment, std::move(graph)).first->second;
}

const Trial* Winners::find_improved(const Assignment& assignment) const {
  const auto found = std::ranges::find_if(
      study_.trials(), [&](const Trial& trial) { return trial.improved && trial.assignment == assignment; });
  return found == study_.trials().end() ? nullptr : &*found;
}

const Trial* Winners::improve(const Assignment& assignment) {
  if (passes_.empty()) return nullptr;
  if (const Trial* known = find_improved(assignment)) return known;
  const std::string key = journal_prefix() + fmt::format("{}", fmt::join(assignment, ","));
  const auto* numbers = study_.journal().find(key, Study::kTrialNumbers);
  if (numbers == nullptr) {
    const auto start = std::chrono::steady_clock::now();
    try {
      network(assignment);
    } catch (const Error& error) {
      warn_(fmt::format("no better weights are chosen: {}", error.what()));
      passes_ = Table();
      return nullptr;
    }
    const Graph& graph = networks_.at(assignment);
    std::vector<double> measured = study_.judge_improved(graph).to_numbers();
    const bool timed = study_.objective().needs_latency();
    measured.push_back(timed ? study_.latency(graph) : -1);
    seconds_ =
        study_.of_first({std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()})
            .front();
    study_.journal().add(key, study_.of_first(measured));
    numbers = study_.journal().find(key, Study::kTrialNumbers);
  }
  study_.add_improved(study_.trial_of(assignment, *numbers, key));
  return find_improved(assignment);
}

/// The best measured network that costs up to 3 % less than `cost`, or what is predicted to be best.
Assignment Winners::at_cost(double cost, const std::optional<PredictedFront>& predicted) const {
  constexpr double kNear = 0.97;
  const Trial* nearest = nullptr;
  const Trial* cheaper = nullptr;
  for (const Trial& trial : study_.trials()) {
    if (trial.improved || study_.point(trial).cost > cost) continue;
    if (cheaper == nullptr || study_.point(trial).cost > study_.point(*cheaper).cost) cheaper = &trial;
    if (study_.point(trial).cost < kNear * cost) continue;
    if (nearest == nullptr || study_.point(trial).loss < study_.point(*nearest).loss) nearest = &trial;
  }
  if (nearest != nullptr) return nearest->assignment;
  if (!predicted) return cheaper != nullptr ? cheaper->assignment : study_.space().smallest();
  return predicted->assignment(predicted->below(study_, cost));
}

void Winners::bisect(const Sensitivities& found, const std::function<bool()>& goes_on) {
  std::optional<PredictedFront> predicted;
  if (!found.losses.empty()) predicted.emplace(study_, found);
  double high = study_.point(*study_.best()).cost;
  double low = study_.cost(study_.space().smallest());
  // Better weights make up for a bit or so of the width.
  constexpr double kGain = 0.7;
  double next = std::max(low, kGain * high);
  constexpr double kFine = 0.005;
  while (high - low > kFine * high && goes_on()) {
    const Assignment assignment = at_cost(next, predicted);
    const Trial* tried = improve(assignment);
    if (tried == nullptr) return;
    if (study_.objective().meets_quality(tried->quality)) {
      high = std::min(next, study_.point(*tried).cost);
    } else {
      low = next;
    }
    next = (low + high) / 2;
  }
}

/// Assignments left to improve where there is time: where quality is bounded, members of the front, the
/// nearest in cost to the best network first; else all that was measured, the best first.
std::vector<Assignment> Winners::next_ones() const {
  std::vector<Trial> trials;
  std::vector<CostAndLoss> points;
  for (const Trial& trial : study_.trials()) {
    if (trial.improved || !trial.quality.is_finite()) continue;
    trials.push_back(trial);
    points.push_back(study_.point(trial));
  }
  std::vector<Assignment> order;
  if (study_.objective().bounds_quality()) {
    std::vector<size_t> front = pareto_front(points);
    const double cost = study_.point(*study_.best()).cost;
    std::ranges::stable_sort(front, {}, [&](size_t i) { return std::fabs(std::log(points[i].cost / cost)); });
    for (const size_t i : front) order.push_back(trials[i].assignment);
    return order;
  }
  std::ranges::stable_sort(trials, [&](const Trial& a, const Trial& b) {
    return study_.objective().is_better(a.quality, a.costs, b.quality, b.costs);
  });
  for (const Trial& trial : trials) order.push_back(trial.assignment);
  return order;
}

void Winners::improve_best(const Sensitivities& found, const std::function<bool()>& goes_on) {
  if (study_.best() == nullptr || !has_passes()) return;
  if (!goes_on()) return;
  if (improve(Assignment(study_.best()->assignment)) == nullptr) return;
  if (study_.objective().bounds_quality()) bisect(found, goes_on);
  for (const Assignment& assignment : next_ones()) {
    if (find_improved(assignment) != nullptr) continue;
    if (!goes_on()) return;
    improve(assignment);
  }
}

}  // namespace detent
