#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/ranges.h>

#include "detent/search/front_cover.h"
#include "detent/search/strategy.h"

// Sensitivities of single operands and of pairs along residuals make an integer programme: least distortion
// for a cost, solved exactly for every cost. What it proposes is measured; then rounds refine the front:
// sensitivities are measured again around the best network, where noise adds up otherwise than around the
// float network, and the programme is solved with these; gaps of the front are filled with neighbours of its
// members; and, where quality is bounded, mutated members compete over more and more samples (successive
// halving; Jamieson and Talwalkar 2016, arXiv:1502.07943).

namespace detent {
namespace {

constexpr int64_t kSensitivitySamples = 128;
constexpr size_t kSpread = 6;
constexpr size_t kStarts = 96;

class GuidedSearch {
 public:
  GuidedSearch(Study& study, Sensitivities& found) : study_(study), found_(found), draws_(study.seed()) {}

  void run() {
    if (study_.measure({study_.space().largest(), study_.space().smallest()}).empty()) return;
    found_ = measure_sensitivities(study_, kSensitivitySamples);
    if (found_.losses.empty()) return;
    predicted_.emplace(study_, found_);
    cover_.emplace(study_, found_);
    cover_->screen(study_.space().uniform_weights());
    propose();
    for (size_t rounds = 0; !study_.ended(); ++rounds) {
      const size_t before = study_.trials().size();
      refine_around_best();
      const bool is_covered = !cover_->round(costs_of_round(rounds));
      if (is_covered || study_.objective().bounds_quality()) evolve();
      if (static_cast<double>(study_.trials().size()) >= study_.space().size()) return;
      stale_ = study_.trials().size() == before ? stale_ + 1 : 0;
    }
  }

 private:
  const std::vector<Choice>& choices() const { return study_.space().choices; }

  /// Where quality is bounded, every other round stays near the best network.
  std::pair<double, double> costs_of_round(size_t round) const {
    if (!study_.objective().bounds_quality() || round % 2 == 1) return {0, HUGE_VAL};
    constexpr double kBelow = 0.75;
    constexpr double kAbove = 1.1;
    const double cost = study_.cost(study_.best()->assignment);
    return {kBelow * cost, kAbove * cost};
  }

  void propose() {
    if (study_.objective().bounds_quality()) bisect(*predicted_);
    std::vector<Assignment> batch;
    for (const size_t place : predicted_->spread_places(kSpread))
      batch.push_back(predicted_->assignment(place));
    study_.measure(batch);
    std::vector<Assignment> starts;
    for (const size_t place : predicted_->spread_places(kStarts))
      starts.push_back(predicted_->assignment(place));
    cover_->add_starts(std::move(starts));
    if (!study_.objective().bounds_quality()) approach_bound(*predicted_);
  }

  /// The smallest cost whose network is good enough, as if quality grew with it.
  void bisect(const PredictedFront& front) {
    size_t low = 0;
    size_t high = front.size();
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      const std::vector<Trial> trial = study_.measure({front.assignment(middle)});
      if (trial.empty()) return;
      const bool good = study_.objective().meets_quality(trial.front().quality);
      if (good) {
        high = middle;
      } else {
        low = middle + 1;
      }
      if (high - low <= front.size() / 256) return;
    }
  }

  /// The largest cost that is within bounds.
  void approach_bound(const PredictedFront& front) {
    size_t low = 0;
    size_t high = front.size();
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      const bool fits = study_.objective().meets_costs(study_.model().costs(front.assignment(middle)));
      if (fits) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low > 0) study_.measure({front.assignment(low - 1)});
  }

  /// Sensitivities around the network `centre`: what other formats of one operand change, two steps up and
  /// down.
  std::optional<Sensitivities> around(const Assignment& centre) {
    constexpr int kMostSteps = 2;
    std::vector<std::pair<size_t, int>> changes;
    for (size_t c = 0; c < choices().size(); ++c) {
      const int last = static_cast<int>(choices()[c].formats.size()) - 1;
      for (int f = std::max(0, centre[c] - kMostSteps); f <= std::min(last, centre[c] + kMostSteps); ++f)
        if (f != centre[c]) changes.emplace_back(c, f);
    }
    constexpr double kShare = 0.25;
    const std::string key = fmt::format("around {}", fmt::join(centre, ","));
    const int64_t samples = study_.affordable_samples(key, kSensitivitySamples, changes.size(), kShare);
    const Graph made = study_.networks().make(centre);
    const auto variants = [&] {
      std::vector<Variant> all;
      for (const auto& [c, f] : changes) all.push_back(study_.networks().changed(made, centre, c, f));
      return all;
    };
    const std::vector<double> measured =
        study_.measure_variants(key, made, variants, changes.size(), samples);
    if (measured.empty()) return std::nullopt;
    // Farther choices stay as they were: too dear or too bad to be taken.
    Sensitivities local{.samples = samples, .losses = {}, .pairs = {}};
    for (size_t c = 0; c < choices().size(); ++c) {
      std::vector<double>& losses = local.losses.emplace_back(choices()[c].formats.size());
      const double own = found_.losses[c][static_cast<size_t>(centre[c])];
      for (size_t f = 0; f < losses.size(); ++f) losses[f] = std::max(0.0, found_.losses[c][f] - own);
    }
    for (size_t i = 0; i < changes.size(); ++i) {
      const auto [c, f] = changes[i];
      local.losses[c][static_cast<size_t>(f)] = measured[i + 1] - measured[0];
    }
    return local;
  }

  void refine_around_best() {
    const Trial* best = study_.best();
    if (best == nullptr || stale_ > 0 || best->assignment == study_.space().largest()) return;
    const std::vector<Trial> largest = study_.measure({study_.space().largest()});
    // Without a bound that matters the best is but the dear end of the front.
    const SearchObjective& objective = study_.objective();
    if (largest.empty() || (!objective.bounds_quality() && objective.meets_costs(largest.front().costs)))
      return;
    if (std::ranges::find(centres_, best->assignment) != centres_.end()) return;
    const Assignment centre = best->assignment;
    centres_.push_back(centre);
    const std::optional<Sensitivities> local = around(centre);
    if (!local) return;
    const PredictedFront front(study_, *local);
    const size_t same_cost = front.within(centre);
    std::vector<Assignment> batch = {front.assignment(same_cost)};
    if (study_.objective().bounds_quality()) {
      const auto cost = static_cast<double>(front.cost(same_cost));
      for (const double share : {0.98, 0.95, 0.91}) {
        size_t place = same_cost;
        while (place > 0 && static_cast<double>(front.cost(place)) > share * cost) --place;
        batch.push_back(front.assignment(place));
      }
    }
    study_.measure(batch);
  }

  /// A member of the front, those near the best network more often.
  const Assignment& parent(const std::vector<const Trial*>& front) {
    const Trial* best = study_.best();
    const bool is_inside = best->assignment != study_.space().largest();
    if (is_inside && draws_.below(2) == 0) return best->assignment;
    return front[static_cast<size_t>(draws_.below(front.size()))]->assignment;
  }

  Assignment mutated(Assignment assignment) {
    const int changes = 1 + draws_.below(3);
    for (int i = 0; i < changes; ++i) {
      const auto c = static_cast<size_t>(draws_.below(choices().size()));
      const int last = static_cast<int>(choices()[c].formats.size()) - 1;
      // Up and down in turn, so that costs stay about the same.
      const int step = (i + draws_.below(2)) % 2 == 0 ? 1 : -1;
      assignment[c] = std::clamp(assignment[c] + step, 0, last);
    }
    return assignment;
  }

  void evolve() {
    constexpr size_t kChildren = 16;
    const std::vector<const Trial*> front = study_.front();
    if (front.empty()) return;
    std::vector<Assignment> rivals;
    for (size_t attempts = 0; rivals.size() < kChildren && attempts < 20 * kChildren; ++attempts) {
      Assignment child = mutated(parent(front));
      const auto known = [&](const Trial& trial) { return trial.assignment == child; };
      if (std::ranges::find(rivals, child) != rivals.end() || std::ranges::any_of(study_.trials(), known))
        continue;
      rivals.push_back(std::move(child));
    }
    for (int64_t share = 8; share >= 1 && !study_.ended(); share /= share == 4 ? 4 : 2) {
      const std::vector<Trial> measured =
          study_.measure(rivals, std::max<int64_t>(1, study_.samples() / share));
      if (measured.empty()) return;
      std::vector<CostAndLoss> points;
      for (const Trial& trial : measured)
        points.push_back({study_.cost(trial.assignment), study_.objective().distortion(trial.quality)});
      rivals.clear();
      for (const size_t i : best_first(points)) {
        if (rivals.size() < std::max<size_t>(1, measured.size() / 2))
          rivals.push_back(measured[i].assignment);
      }
    }
  }

  Study& study_;
  Sensitivities& found_;
  RandomDraws draws_;
  std::optional<PredictedFront> predicted_;
  std::optional<FrontCover> cover_;
  std::vector<Assignment> centres_;  // that sensitivities were measured around
  int stale_ = 0;                    // rounds without a new trial
};

}  // namespace

void search_guided(Study& study, Sensitivities& found) { GuidedSearch(study, found).run(); }

}  // namespace detent
