#include "detent/search/study.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/interruption.h"

namespace detent {
namespace {

using Clock = std::chrono::steady_clock;

/// A whole number of few digits.
std::optional<int> parse_format_place(const std::string& text) {
  int place = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), place);
  if (error != std::errc() || end != text.data() + text.size() || place < 0) return std::nullopt;
  return place;
}

std::string trial_prefix(int64_t samples) { return fmt::format("trial {} ", samples); }

std::string trial_key(const Assignment& assignment, int64_t samples) {
  return trial_prefix(samples) + fmt::format("{}", fmt::join(assignment, ","));
}

/// "1,0,3"; nothing where it is none of the space.
std::optional<Assignment> parse_assignment(const std::string& text, const SearchSpace& space) {
  Assignment assignment;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::optional<int> format = parse_format_place(text.substr(begin, end - begin));
    const size_t choice = assignment.size();
    if (!format || choice >= space.choices.size() || *format >= std::ssize(space.choices[choice].formats))
      return std::nullopt;
    assignment.push_back(*format);
    begin = end + 1;
  }
  if (assignment.size() != space.choices.size()) return std::nullopt;
  return assignment;
}

std::vector<double> as_numbers(const std::vector<std::byte>& bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

/// Each costs half a run: it begins, on average, in the middle.
double runs_of_variants(size_t count) { return 1 + static_cast<double>(count) / 2; }

}  // namespace

Study::Study(Parts parts, StudyLimits limits, uint64_t seed)
    : parts_(std::move(parts)), limits_(limits), seed_(seed) {}

bool Study::is_stopped() const {
  if (StopSignals::received() != 0) return true;
  return limits_.deadline && Clock::now() >= *limits_.deadline;
}

std::vector<double> Study::of_first(const std::vector<double>& numbers) {
  return as_numbers(parts_.group.all_gather(std::as_bytes(std::span(numbers))).front());
}

bool Study::shall_end() {
  const std::byte mine{static_cast<unsigned char>(is_stopped() ? 1 : 0)};
  for (const std::vector<std::byte>& answer : parts_.group.all_gather({&mine, 1}))
    ended_ = ended_ || answer.front() != std::byte{0};
  return ended_;
}

double Study::seconds_left() const {
  if (!limits_.deadline) return std::numeric_limits<double>::infinity();
  return std::chrono::duration<double>(*limits_.deadline - Clock::now()).count();
}

void Study::note_time(double runs, Clock::time_point start) {
  timed_runs_ += runs;
  timed_seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
}

int64_t Study::affordable_samples(const std::string& key, int64_t most, size_t count, double share) {
  constexpr double kFewest = 8;
  double runs = left();
  if (limits_.deadline && timed_seconds_ > 0)
    runs = std::min(runs, std::max(0.0, seconds_left()) * timed_runs_ / timed_seconds_);
  const double affordable =
      std::floor(share * runs / runs_of_variants(count) * static_cast<double>(samples()));
  const double taken =
      std::min(static_cast<double>(std::min(most, samples())), std::max(kFewest, affordable));
  return static_cast<int64_t>(limits_.deadline ? decided("samples " + key, taken) : taken);
}

double Study::decided(const std::string& key, double number) {
  if (parts_.journal.find(key, 1) == nullptr) parts_.journal.add(key, of_first({number}));
  return parts_.journal.find(key, 1)->front();
}

/// Once for each key; false where that is more than is left.
bool Study::charge(const std::string& key, double evaluations) {
  if (charged_.contains(key)) return true;
  constexpr double kRounding = 1e-9;
  is_spent_ = spent_ + evaluations > limits_.evaluations + kRounding;
  if (is_spent_) return false;
  spent_ += evaluations;
  charged_.insert(key);
  return true;
}

Trial Study::trial_of(const Assignment& assignment, const std::vector<double>& numbers,
                      const std::string& key) const {
  DETENT_CHECK(numbers.size() == kTrialNumbers, "{} numbers", numbers.size());
  Trial trial{assignment,
              Quality::from_numbers({numbers.begin(), numbers.end() - 1}, parts_.journal.place(key)),
              model().costs(assignment)};
  if (numbers.back() >= 0) trial.costs.latency = numbers.back();
  return trial;
}

/// Seconds for a sample of each, which the workers take turns to measure; -1 where no one asks.
std::vector<double> Study::latencies(const std::vector<const Graph*>& graphs) {
  std::vector<double> seconds(graphs.size(), -1);
  if (!objective().needs_latency()) return seconds;
  const auto workers = static_cast<size_t>(parts_.group.size());
  for (size_t first = 0; first < graphs.size(); first += workers) {
    const size_t own = first + static_cast<size_t>(parts_.group.rank());
    const double mine = own < graphs.size() ? parts_.latency(*graphs[own]) : -1;
    const auto given = parts_.group.all_gather(std::as_bytes(std::span(&mine, 1)));
    for (size_t i = 0; i < workers && first + i < graphs.size(); ++i)
      seconds[first + i] = as_numbers(given[i]).front();
  }
  return seconds;
}

bool Study::run_family(const std::vector<Assignment>& assignments, const RunFamily& family, int64_t samples) {
  const Graph base = parts_.networks.make(assignments[family.front().assignment]);
  std::vector<Variant> variants;
  std::vector<const Graph*> graphs = {&base};
  for (size_t i = 1; i < family.size(); ++i) {
    const SharedRun& run = family[i];
    Variant& variant = variants.emplace_back();
    variant.graph = parts_.networks.make(assignments[run.assignment]);
    variant.first = run.first;
    if (*run.parent > 0) variant.parent = *run.parent - 1;
  }
  for (const Variant& variant : variants) graphs.push_back(&variant.graph);
  const auto start = Clock::now();
  const auto qualities = parts_.judge.judge_family(
      base, variants, samples, [&] { return is_stopped(); }, parts_.group);
  if (!qualities) return false;
  note_time(shared().runs({family}) * share_of(samples), start);
  const std::vector<double> seconds = latencies(graphs);
  for (size_t i = 0; i < family.size(); ++i) {
    std::vector<double> numbers = (*qualities)[i].to_numbers();
    numbers.push_back(seconds[i]);
    parts_.journal.add(trial_key(assignments[family[i].assignment], samples), numbers);
  }
  return true;
}

bool Study::run_missing(const std::vector<Assignment>& assignments, int64_t samples) {
  std::vector<Assignment> missing;
  for (const Assignment& assignment : assignments) {
    const bool known = parts_.journal.find(trial_key(assignment, samples), kTrialNumbers) != nullptr;
    if (!known && std::ranges::find(missing, assignment) == missing.end()) missing.push_back(assignment);
  }
  for (const RunFamily& family : shared().families(missing, parts_.judge.family_size())) {
    if (shall_end()) return false;
    ended_ = !run_family(missing, family, samples);
    if (ended_) return false;
  }
  return true;
}

std::vector<Assignment> Study::charged(const std::vector<Assignment>& assignments, int64_t samples) {
  constexpr double kRounding = 1e-9;
  const double each = share_of(samples);
  std::vector<Assignment> affordable;
  std::vector<Assignment> added;
  double cost = 0;
  for (const Assignment& assignment : assignments) {
    const bool is_known = charged_.contains(trial_key(assignment, samples)) ||
                          std::ranges::find(added, assignment) != added.end();
    if (!is_known) {
      added.push_back(assignment);
      const double with_this = each * shared().runs(shared().families(added, parts_.judge.family_size()));
      is_spent_ = spent_ + with_this > limits_.evaluations + kRounding;
      if (is_spent_) {
        added.pop_back();
        break;
      }
      cost = with_this;
    }
    affordable.push_back(assignment);
  }
  spent_ += cost;
  for (const Assignment& assignment : added) charged_.insert(trial_key(assignment, samples));
  return affordable;
}

std::vector<Trial> Study::measure(const std::vector<Assignment>& assignments, int64_t samples) {
  samples = std::min(samples, this->samples());
  if (ended_) return {};
  const size_t charged_before = charged_.size();
  const std::vector<Assignment> affordable = charged(assignments, samples);
  const bool measures_new = charged_.size() > charged_before;
  const bool complete = run_missing(affordable, samples);
  std::vector<Trial> measured;
  bool is_new = false;
  for (const Assignment& assignment : affordable) {
    const auto* numbers = parts_.journal.find(trial_key(assignment, samples), kTrialNumbers);
    if (numbers == nullptr) break;
    measured.push_back(trial_of(assignment, *numbers, trial_key(assignment, samples)));
    const auto known = [&](const Trial& trial) { return !trial.improved && trial.assignment == assignment; };
    if (samples < this->samples() || std::ranges::any_of(trials_, known)) continue;
    trials_.push_back(measured.back());
    is_new = true;
  }
  if (is_new) parts_.after_trials();
  // A strategy that finds nothing new any more has come to its end.
  constexpr int kMostIdle = 64;
  idle_ = complete && measures_new ? 0 : idle_ + 1;
  if (idle_ > kMostIdle) ended_ = true;
  if (affordable.size() < assignments.size() || !complete) {
    ended_ = true;
    return {};
  }
  return measured;
}

std::vector<double> Study::measure_variants(const std::string& key, const Graph& base,
                                            const std::function<std::vector<Variant>()>& variants,
                                            size_t count, int64_t samples) {
  samples = std::min(samples, this->samples());
  if (ended_) return {};
  const double runs = runs_of_variants(count) * share_of(samples);
  const std::string full_key = fmt::format("variants {} {}", samples, key);
  if (!charge(full_key, runs)) {
    ended_ = true;
    return {};
  }
  if (const auto* numbers = parts_.journal.find(full_key, count + 1)) return *numbers;
  if (shall_end()) return {};
  const auto start = Clock::now();
  const auto losses = parts_.judge.judge_variants(
      base, variants(), objective().quality(), samples, [&] { return is_stopped(); }, parts_.group);
  if (!losses) {
    ended_ = true;
    return {};
  }
  note_time(runs, start);
  parts_.journal.add(full_key, *losses);
  return *losses;
}

std::vector<Trial> Study::journaled(const std::string& prefix, bool improved) const {
  std::vector<Trial> trials;
  for (const auto& [text, numbers] : parts_.journal.with_prefix(prefix, kTrialNumbers)) {
    const std::optional<Assignment> assignment = parse_assignment(text, space());
    if (!assignment) continue;
    trials.push_back(trial_of(*assignment, numbers, prefix + text));
    trials.back().improved = improved;
  }
  return trials;
}

std::optional<Trial> Study::best_of_journal(const std::string& improved_prefix) const {
  std::vector<Trial> all = journaled(trial_prefix(samples()), false);
  for (Trial& trial : journaled(improved_prefix, true)) all.push_back(std::move(trial));
  std::optional<Trial> best;
  for (const Trial& trial : all) {
    if (!best || is_better(trial, *best)) best = trial;
  }
  return best;
}

void Study::add_improved(Trial trial) {
  trial.improved = true;
  trials_.push_back(std::move(trial));
  parts_.after_trials();
}

Quality Study::judge_improved(const Graph& graph) {
  const auto start = Clock::now();
  const Quality quality = *parts_.judge.judge(graph, samples(), [] { return false; });
  note_time(1, start);
  return quality;
}

CostAndLoss Study::point(const Trial& trial) const {
  return {trial.costs.value(objective().cost()), objective().loss(trial.quality)};
}

const Trial* Study::best() const {
  const Trial* best = nullptr;
  for (const Trial& trial : trials_) {
    if (best == nullptr || is_better(trial, *best)) best = &trial;
  }
  return best;
}

std::vector<const Trial*> Study::front() const {
  std::vector<CostAndLoss> points;
  std::vector<const Trial*> finite;
  for (const Trial& trial : trials_) {
    if (!trial.quality.is_finite()) continue;
    points.push_back(point(trial));
    finite.push_back(&trial);
  }
  std::vector<const Trial*> front;
  for (const size_t i : pareto_front(points)) front.push_back(finite[i]);
  return front;
}

}  // namespace detent
