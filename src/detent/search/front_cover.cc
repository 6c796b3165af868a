#include "detent/search/front_cover.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace detent {
namespace {

/// One in so many samples is looked at first.
constexpr int64_t kScreeningShare = 8;
/// By how much, as a logarithm, a distortion on few samples and one on all usually differ.
constexpr double kScreeningDeviation = 0.04;
constexpr size_t kScreened = 24;
constexpr size_t kMostCandidates = 256;
constexpr size_t kFirstMembers = 24;
/// Evaluations that one round measures with.
constexpr double kRound = 6;
/// Where less than so many are likely, predictions are doubted.
constexpr size_t kFewCandidates = 16;
constexpr double kMostDoubt = 8;
/// Networks that are less likely than this to be on the front are left.
constexpr double kUnlikely = 0.05;
/// How many times more a network is worth in the widest gaps of the front.
constexpr double kMostGapWorth = 8;
/// Running but the last layer costs something too: reading its input, comparing its output.
constexpr double kLeastShare = 0.02;
constexpr int kSteps = 2;
/// So many are looked at all, not only what is near to the front.
constexpr double kFewAssignments = 20'000;

double normal_share_below(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

double log_of(double distortion) { return std::log(std::max(distortion, kLeastDistortion)); }

/// Calls `use` with all that differ in one choice, and with those that are a step or two larger in one and
/// smaller in another.
template <class Use>
void for_each_neighbour(const Assignment& centre, const SearchSpace& space, const Use& use) {
  const auto last = [&](size_t c) { return static_cast<int>(space.choices[c].formats.size()) - 1; };
  Assignment changed = centre;
  for (size_t up = 0; up < centre.size(); ++up) {
    for (int f = 0; f <= last(up); ++f) {
      if (f == centre[up]) continue;
      changed[up] = f;
      use(changed);
      if (f < centre[up] || f > centre[up] + kSteps) continue;
      for (size_t down = 0; down < centre.size(); ++down) {
        if (down == up) continue;
        for (int step = 1; step <= std::min(kSteps, centre[down]); ++step) {
          changed[down] = centre[down] - step;
          use(changed);
        }
        changed[down] = centre[down];
      }
    }
    changed[up] = centre[up];
  }
}

template <class Use>
void for_each_assignment(const SearchSpace& space, const Use& use) {
  Assignment assignment(space.choices.size(), 0);
  while (true) {
    use(assignment);
    size_t c = 0;
    while (c < assignment.size() && assignment[c] + 1 == std::ssize(space.choices[c].formats))
      assignment[c++] = 0;
    if (c == assignment.size()) return;
    ++assignment[c];
  }
}

}  // namespace

FrontCover::FrontCover(Study& study, const Sensitivities& sensitivities)
    : study_(study), surrogate_(study.space(), sensitivities) {}

void FrontCover::add_starts(std::vector<Assignment> starts) {
  for (Assignment& start : starts) starts_.push_back(std::move(start));
}

void FrontCover::screen(const std::vector<Assignment>& assignments) {
  const int64_t samples = std::max<int64_t>(1, study_.samples() / kScreeningShare);
  for (const Trial& trial : study_.measure(assignments, samples)) {
    const double distortion = study_.objective().distortion(trial.quality);
    screened_[trial.assignment] = log_of(distortion);
    surrogate_.see(trial.assignment, distortion);
  }
}

void FrontCover::see_trials() {
  for (; seen_trials_ < study_.trials().size(); ++seen_trials_) {
    const Trial& trial = study_.trials()[seen_trials_];
    if (trial.improved) continue;
    const double distortion = study_.objective().distortion(trial.quality);
    measured_[trial.assignment] = log_of(distortion);
    surrogate_.see(trial.assignment, distortion);
  }
}

double FrontCover::below(const Steps& steps, double cost) {
  const auto above = std::ranges::upper_bound(steps, cost, {}, &Steps::value_type::first);
  return above == steps.begin() ? std::numeric_limits<double>::infinity() : std::prev(above)->second;
}

FrontCover::Steps FrontCover::measured_front() const {
  Steps all;
  for (const auto& [assignment, loss] : measured_) all.emplace_back(study_.cost(assignment), loss);
  std::ranges::sort(all);
  Steps front;
  for (const auto& point : all) {
    if (front.empty() || point.second < front.back().second) front.push_back(point);
  }
  return front;
}

/// The distance of the costs on both sides, as a multiple of the usual one, within limits.
double FrontCover::gap_worth(const Steps& front, double cost) {
  const auto above = std::ranges::upper_bound(front, cost, {}, &Steps::value_type::first);
  if (above == front.begin() || above == front.end()) return 1;
  const double usual = (front.back().first - front.front().first) / static_cast<double>(front.size() - 1);
  return std::clamp((above->first - std::prev(above)->first) / usual, 1.0, kMostGapWorth);
}

/// The members of what is known of the front, and what else there is to begin from.
std::vector<Assignment> FrontCover::members() const {
  std::vector<std::pair<CostAndLoss, Assignment>> known;
  const auto add = [&](const Assignment& assignment, double loss) {
    known.emplace_back(CostAndLoss{study_.cost(assignment), loss}, assignment);
  };
  for (const auto& [assignment, loss] : measured_) add(assignment, loss);
  for (const auto& [assignment, loss] : screened_) {
    if (!is_measured(assignment)) add(assignment, loss);
  }
  for (const Assignment& start : starts_) {
    if (!is_measured(start) && !screened_.contains(start)) add(start, surrogate_.predict(start));
  }
  std::vector<CostAndLoss> points;
  for (const auto& [point, assignment] : known) points.push_back(point);
  std::vector<Assignment> members;
  for (const size_t i : pareto_front(points)) members.push_back(known[i].second);
  return members;
}

std::vector<FrontCover::Candidate> FrontCover::candidates(std::pair<double, double> costs) const {
  struct Predicted {
    Assignment assignment;
    double cost;
    double loss;
    double deviation;
  };
  const Steps front = measured_front();
  const double deviation = doubt_ * surrogate_.deviation();
  std::vector<Predicted> all;
  std::set<Assignment> tried;
  const auto consider = [&](const Assignment& assignment) {
    if (is_measured(assignment) || !tried.insert(assignment).second) return;
    const double cost = study_.cost(assignment);
    if (cost < costs.first || cost > costs.second) return;
    const auto screened = screened_.find(assignment);
    const bool is_screened = screened != screened_.end() && deviation > kScreeningDeviation;
    const double loss = is_screened ? screened->second : surrogate_.predict(assignment);
    constexpr double kHopeless = 3;
    if (loss > below(front, cost) + kHopeless * deviation) return;
    all.push_back({assignment, cost, loss, is_screened ? kScreeningDeviation : deviation});
  };
  const bool looks_at_all = study_.space().size() <= kFewAssignments;
  if (looks_at_all) {
    for_each_assignment(study_.space(), consider);
  } else {
    for (const Assignment& member : members()) {
      consider(member);
      for_each_neighbour(member, study_.space(), consider);
    }
  }
  // The front as it would be with all of them.
  std::ranges::sort(all, {}, [](const Predicted& p) { return std::pair(p.cost, p.loss); });
  std::vector<Candidate> found;
  double least = std::numeric_limits<double>::infinity();
  for (const Predicted& predicted : all) {
    const double in_front =
        normal_share_below((below(front, predicted.cost) - predicted.loss) / predicted.deviation);
    const double beside = 2 * normal_share_below(std::min(0.0, least - predicted.loss) / predicted.deviation);
    least = std::min(least, predicted.loss);
    const double probability = in_front * beside;
    if (probability < kUnlikely) continue;
    found.push_back(
        {predicted.assignment, probability * (looks_at_all ? 1 : gap_worth(front, predicted.cost))});
  }
  std::ranges::stable_sort(found, std::greater<>(), &Candidate::worth);
  if (found.size() > kMostCandidates) found.resize(kMostCandidates);
  return found;
}

/// Worth of measuring a family with one candidate that is run whole: those that add more to the front for
/// what they cost than the family does without them. Returns the members of the front that are to be
/// expected, and the runs.
std::pair<double, double> FrontCover::family_worth(const std::vector<Candidate>& candidates, size_t first,
                                                   std::vector<Assignment>& family) const {
  double worth = candidates[first].worth;
  double runs = 1;
  family = {candidates[first].assignment};
  std::vector<double> shares(candidates.size(), 1.0);
  std::vector<char> is_taken(candidates.size());
  is_taken[first] = 1;
  while (true) {
    size_t best = candidates.size();
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (is_taken[i] != 0) continue;
      const double share = study_.shared().share_after(family.back(), candidates[i].assignment);
      shares[i] = std::min(shares[i], std::max(share, kLeastShare));
      const double rate = candidates[i].worth / shares[i];
      if (best == candidates.size() || rate > candidates[best].worth / shares[best]) best = i;
    }
    if (best == candidates.size()) break;
    if (candidates[best].worth * runs < worth * shares[best]) break;
    worth += candidates[best].worth;
    runs += shares[best];
    is_taken[best] = 1;
    family.push_back(candidates[best].assignment);
  }
  return {worth, runs};
}

std::vector<Assignment> FrontCover::best_family(const std::vector<Candidate>& candidates) const {
  std::vector<Assignment> best;
  double best_rate = 0;
  for (size_t first = 0; first < std::min(candidates.size(), kFirstMembers); ++first) {
    std::vector<Assignment> family;
    const auto [worth, runs] = family_worth(candidates, first, family);
    if (worth / runs <= best_rate) continue;
    best_rate = worth / runs;
    best = std::move(family);
  }
  return best;
}

bool FrontCover::round(std::pair<double, double> costs) {
  see_trials();
  doubt_ = 1;
  while (doubt_ < kMostDoubt && candidates(costs).size() < kFewCandidates) doubt_ *= 2;
  // Where parts predict better than few samples do, there is nothing to be seen on these.
  std::vector<Assignment> unseen;
  if (surrogate_.deviation() > kScreeningDeviation) {
    for (const Candidate& candidate : candidates(costs)) {
      if (unseen.size() < kScreened && !screened_.contains(candidate.assignment))
        unseen.push_back(candidate.assignment);
    }
  }
  if (!unseen.empty()) screen(unseen);
  const double begin = study_.spent();
  bool found = !unseen.empty();
  while (!study_.ended() && study_.spent() < begin + kRound) {
    const std::vector<Candidate> likely = candidates(costs);
    if (likely.empty()) break;
    study_.measure(best_family(likely));
    see_trials();
    found = true;
  }
  return found;
}

}  // namespace detent
