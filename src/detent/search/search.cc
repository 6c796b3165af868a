#include "detent/search/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "detent/core/error.h"
#include "detent/core/interruption.h"
#include "detent/core/log.h"
#include "detent/core/progress.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/passes/post_training/static_quantize.h"
#include "detent/passes/staged_runs/round_weights.h"
#include "detent/search/strategy.h"
#include "detent/search/winners.h"

namespace detent {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kUsualEvaluations = 100;
/// The share of the time that better weights may take, and how much longer than the time the last may.
constexpr double kMostForWinners = 0.4;
constexpr double kOverrun = 0.03;
/// Better weights are tried last, where nobody knows how long they take, only where as much of the time is
/// left.
constexpr double kTimeToTry = 0.35;

double evaluations_of(const SearchOptions& options) {
  if (options.evaluations) return static_cast<double>(*options.evaluations);
  return options.time ? std::numeric_limits<double>::infinity() : kUsualEvaluations;
}

std::string end_text(const Study& study, const StudyLimits& limits) {
  if (StopSignals::received() != 0) return "stopped by " + signal_name(StopSignals::received());
  if (limits.deadline && Clock::now() >= *limits.deadline) return "time is up";
  return study.is_spent() ? "evaluations are spent" : "nothing is left to try";
}

/// Before anything is measured.
SearchSpace tried_space(const SearchRequest& request, const CodePlan& plan, const std::string& where) {
  SearchSpace space = make_search_space(request.network, plan, request.options, where);
  check_size(find_strategy(request.options.strategy, where), space.size());
  return space;
}

class Search {
 public:
  Search(const SearchRequest& request, PassContext& context)
      : request_(request),
        options_(request.options),
        plan_(plan_codes(request.network, masked_scores(request.network, context).in_float)),
        space_(tried_space(request, plan_, context.where)),
        model_(request.network, space_),
        judge_(request.network, context.executor(), request.samples, options_.eval_samples),
        objective_(options_, judge_.reference(), judge_.has_labels(), model_, space_, context.where),
        networks_(request.network, plan_, space_, options_, context),
        shared_(request.network, plan_, space_),
        journal_(request.folder / kSearchJournal, request.resumes, *context.group),
        files_(request.folder, options_, judge_.reference()),
        is_first_(context.group->is_first()),
        study_({.networks = networks_,
                .model = model_,
                .judge = judge_,
                .shared = shared_,
                .objective = objective_,
                .journal = journal_,
                .group = *context.group,
                .latency = request.latency,
                .after_trials = [this] { note_trials(); }},
               {.evaluations = evaluations_of(options_), .deadline = deadline()}, request.seed),
        winners_(study_, options_, context),
        context_(context) {}

  SearchReport run() {
    if (request_.resumes) before_ = study_.best_of_journal(winners_.journal_prefix());
    study_deadline_ = deadline();
    // Passes for one width need no weights chosen beforehand, and may be all that there is time for.
    limit_samples_of_winners();
    if (winners_.has_passes()) measure_uniform_widths();
    choose_weights();
    progress_.emplace("searching, evaluations", total(), Progress::Options{.shown = is_first_});
    if (!winners_.has_passes()) measure_uniform_widths();
    leave_time_for_winners();
    if (!study_.ended()) find_strategy(options_.strategy, "search").run(study_, found_);
    const std::string end = end_text(study_, {.deadline = study_deadline_});
    progress_.reset();
    study_.set_deadline(deadline());
    study_.go_on();
    if (StopSignals::received() == 0) improve_winners();
    finish(end);
    SearchReport report =
        make_report(study_, found_, judge_.reference(), static_cast<size_t>(options_.points));
    report.strategy = options_.strategy;
    report.state = end;
    return report;
  }

 private:
  std::optional<Clock::time_point> deadline() const {
    if (!options_.time) return std::nullopt;
    return request_.start +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.time->seconds));
  }
  int64_t total() const {
    const double evaluations = evaluations_of(options_);
    return evaluations < 1e9 ? static_cast<int64_t>(evaluations) : 0;
  }
  double seconds_left() const { return std::chrono::duration<double>(*deadline() - Clock::now()).count(); }

  void note_trials() {
    if (progress_) {
      const Trial* best = study_.best();
      progress_->update(static_cast<int64_t>(study_.spent()),
                        fmt::format("best {} bytes", best == nullptr ? 0 : best->costs.bytes));
    }
    // The result of an earlier process stays until there is one as good.
    const bool catches_up = before_ && study_.best() != nullptr && study_.is_better(*before_, *study_.best());
    if (is_first_ && !catches_up) files_.write(study_, found_, winners_, "running", false);
  }

  /// Where there is little time, better weights are chosen with fewer samples.
  void limit_samples_of_winners() {
    if (!options_.time) return;
    constexpr double kShare = 0.4;
    constexpr double kFewest = 32;
    const Graph& network = request_.network;
    const double per_second =
        multiply_adds(network) * static_cast<double>(judge_.samples()) / std::max(judge_.seconds(), 1e-6);
    const double affordable = choosing_cost(network, RoundingTarget::kFloatNetwork)
                                  .samples_for(kShare * std::max(seconds_left(), 0.0) * per_second);
    const double samples =
        std::min(std::max(kFewest, std::floor(affordable)), static_cast<double>(options_.num_samples));
    winners_.set_samples(static_cast<int64_t>(study_.decided("samples of better weights", samples)));
  }

  /// Weights of one width, as good as passes make them, come first: all else must be better, and where there
  /// is little time they are what is found. The smallest that is good enough, by bisection, or the largest
  /// within the bounds.
  void measure_uniform_widths() {
    std::vector<Assignment> widths = space_.uniform_weights();
    std::erase_if(widths,
                  [&](const Assignment& width) { return !objective_.meets_costs(model_.costs(width)); });
    size_t low = 0;
    size_t high = widths.size();
    // One there must be, however late it is; with time, at most half of it is for these.
    const auto goes_on = [&] {
      if (study_.best() == nullptr) return true;
      const double left = options_.time ? seconds_left() / options_.time->seconds : 1;
      return !study_.shall_end() && study_.of_first({left}).front() > 0.5;
    };
    while (low < high && goes_on()) {
      const size_t middle = objective_.bounds_quality() ? low + (high - low) / 2 : high - 1;
      const std::optional<Quality> quality = measured(widths[middle]);
      if (!quality || !objective_.bounds_quality()) return;
      if (objective_.meets_quality(*quality)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
  }

  void choose_weights() {
    const bool may_stop = study_.best() != nullptr;
    networks_.choose_weights(options_, context_, [&] { return may_stop && study_.is_stopped(); });
    if (may_stop) study_.shall_end();
  }

  /// With better weights, where there are passes for that; nothing where these do not fit, and when the
  /// search is to end.
  std::optional<Quality> measured(const Assignment& assignment) {
    if (winners_.has_passes()) {
      const Trial* improved = winners_.improve(assignment);
      return improved == nullptr ? std::nullopt : std::optional(improved->quality);
    }
    const std::vector<Trial> trials = study_.measure({assignment});
    if (trials.empty()) return std::nullopt;
    return trials.front().quality;
  }

  /// As long as they took for the last network.
  void leave_time_for_winners() {
    if (!options_.time || !winners_.has_passes()) return;
    const double reserve = std::min(1.25 * winners_.seconds() * static_cast<double>(options_.winners),
                                    kMostForWinners * options_.time->seconds);
    study_deadline_ =
        *deadline() - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(reserve));
    study_.set_deadline(study_deadline_);
  }

  void improve_winners() {
    int64_t tried = 0;
    winners_.improve_best(found_, [&] {
      if (StopSignals::received() != 0) return false;
      double wanted = tried < options_.winners ? 1 : 0;
      if (options_.time) {
        const double slack = kOverrun * options_.time->seconds;
        const bool is_known = winners_.seconds() > 0;
        const double needed = is_known ? winners_.seconds() - slack : kTimeToTry * options_.time->seconds;
        wanted = seconds_left() > needed ? 1 : 0;
      }
      ++tried;
      return study_.of_first({wanted}).front() > 0;
    });
  }

  void finish(const std::string& end) {
    winners_.recall();
    const bool catches_up =
        before_ && (study_.best() == nullptr || study_.is_better(*before_, *study_.best()));
    if (catches_up) return;  // a signal came before that
    if (is_first_) files_.write(study_, found_, winners_, end, true);
  }

  const SearchRequest& request_;
  const SearchOptions& options_;
  CodePlan plan_;
  SearchSpace space_;
  CostModel model_;
  Judge judge_;
  SearchObjective objective_;
  CandidateNetworks networks_;
  SharedRuns shared_;
  Journal journal_;
  SearchFiles files_;
  bool is_first_;
  Sensitivities found_;
  Study study_;
  Winners winners_;
  PassContext& context_;
  std::optional<Trial> before_;  // the best that the journal had when this process began
  std::optional<Progress> progress_;
  std::optional<Clock::time_point> study_deadline_;
};

}  // namespace

SearchReport search_formats(const SearchRequest& request, PassContext& context) {
  return Search(request, context).run();
}

}  // namespace detent
