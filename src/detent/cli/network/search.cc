#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <optional>

#include <fmt/core.h>

#include "detent/cli/language_model.h"
#include "detent/cli/network/commands.h"
#include "detent/cli/network/network_results.h"
#include "detent/cli/network/result_folder.h"
#include "detent/cli/network/session.h"
#include "detent/cli/network/study_folder.h"
#include "detent/cli/read_network.h"
#include "detent/cli/results.h"
#include "detent/core/error.h"
#include "detent/core/interruption.h"
#include "detent/core/log.h"
#include "detent/engine/fast_executor.h"
#include "detent/graph/loop.h"
#include "detent/passes/pass.h"
#include "detent/search/search.h"
#include "detent/workflows/search_network.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

/// Samples to calibrate on and to judge networks by: parts of the test samples where these are all there are,
/// and else of the training samples.
CalibrationSplits search_splits(const TorchCommand& command, const SearchOptions& options) {
  CalibrationSplits splits = load_calibration_splits(command, options.num_samples);
  if (splits.is_divided) return splits;
  TrainingSplits training = load_training_splits(command);
  return {std::move(training.training), std::move(training.validation), false};
}

/// Says so where even the best network is of little use.
void warn_of_bad_best(const SearchReport& report) {
  constexpr double kLeastSqnr = 10;  // dB
  const auto best = std::ranges::find(report.points, true, &SearchPoint::is_best);
  if (best == report.points.end()) return;
  const Quality& quality = best->quality;
  const Quality& reference = report.reference;
  const char* const remedy = "give larger bounds, larger formats, or more time or evaluations (--resume)";
  if (!quality.is_finite()) {
    log_warning("the outputs of the best network are NaN or infinite: {}", remedy);
  } else if (reference.labelled > 0) {
    if (!is_large_drop(reference.accuracy(), quality.accuracy(), quality.labelled)) return;
    log_warning(
        "the best network is far below the one in float, accuracy {:.4f} ({} of {} right) instead of {:.4f} "
        "({}): {}",
        quality.accuracy(), quality.correct, quality.labelled, reference.accuracy(), reference.correct,
        remedy);
  } else if (quality.sqnr_db() < kLeastSqnr) {
    log_warning("the best network is far from the one in float, an SQNR of {:.1f} dB: {}", quality.sqnr_db(),
                remedy);
  }
}

void say_report(const SearchReport& report, const fs::path& folder, CommandResults& results) {
  constexpr size_t kSensitivities = 10;
  if (!report.sensitivities.empty()) {
    results.say(fmt::format(
        "what the smallest formats do, by themselves, to the output on {} samples, worst first:\n{}\n",
        report.sensitivity_samples, sensitivity_table(report, kSensitivities).to_text()));
  }
  results.say(fmt::format("{}: {:.1f} evaluations of {} samples; {}\n{}\n", report.strategy,
                          report.evaluations, report.samples, report.state, front_table(report).to_text()));
  if (report.reference.labelled > 0)
    results.say(fmt::format("float: accuracy {:.4f} +- {:.4f} of these samples\n",
                            report.reference.accuracy(), report.reference.standard_error()));
  results.say(fmt::format("asked for: {}\n", report.objective));
  if (!report.is_met) {
    results.say(
        "no network was found that is within all bounds: best is the nearest; give more time or\n"
        "evaluations (--resume), larger formats, or other bounds\n");
  }
  results.say(fmt::format("best network: {}\n", (folder / kBestNetwork).string()));
}

std::vector<LanguageFile> language_files_of(const TorchCommand& command, const Graph& network) {
  return command.options.load ? language_files(*command.options.load, network) : std::vector<LanguageFile>();
}

/// The front as docs/results.md says, and the best network.
void add_report(CommandResults& results, const SearchReport& report, const TorchCommand& command,
                const Dataset& dataset) {
  const fs::path folder = command.software_dir / "search";
  for (auto& [key, value] : search_results(report)) results.add(key, value);
  add_configuration(results, command);
  results.add("search_options", command.search);
  if (fs::exists(folder / kBestNetwork))
    add_network(results, read_network(folder / kBestNetwork), nullptr, dataset);
}

}  // namespace

void run_search(const TorchCommand& command, ProcessGroup& group) {
  const auto start = std::chrono::steady_clock::now();
  CommandResults results(command.name, result_options(command, group));
  SearchOptions options;
  read_fields(options, command.search, "search");
  const auto whole = load_split(command, Split::kTrain);
  if (whole->size_count() > 1)
    fail("{}: samples of {} sizes, expected one: networks are compared by the same outputs for each sample",
         whole->source(), whole->size_count());
  const auto splits = whole->has_labels() ? search_splits(command, options) : CalibrationSplits();
  const Dataset& training = whole->has_labels() ? *splits.calibration : *whole;
  const Dataset& validation = whole->has_labels() ? *splits.test : *whole;
  Graph network = load_network(command, training);
  if (holds_quantizers(network))
    fail("{}: the network is quantized already: a search begins with one in float", *command.options.load);
  check_workers_agree_on_inputs(network, {{"training samples", &training}}, group);

  const fs::path folder = command.software_dir / "search";
  const std::vector<LanguageFile> texts = language_files_of(command, network);
  const StudyFolder searched(command, folder, search_files(texts),
                             search_settings(options, command.options.seed, network, training.size()), group);
  if (group.is_first()) write_texts_of_search(texts, folder);

  const StopSignals signals(
      group.is_first() ? "\ndetent: stopping; a second signal ends the program at once\n" : "");
  FastExecutor executor;
  PassContext context =
      make_pass_context(training, command.random, command.options.training.batch_size, folder, executor,
                        [&](const std::string& text) { results.say(text); });
  context.group = &group;
  context.loader_threads = command.options.num_workers;
  const NetworkSearch search{
      .options = options,
      .seed = command.options.seed,
      .folder = folder,
      .resumes = searched.resumes(),
      .start = start,
      .where = command.config_file.empty() ? "detent search" : command.config_file + ", [search]",
      .begins = [&](const JudgedSamples& judged, int64_t held_out) {
        results.say(fmt::format(
            "calibration: {} of {} samples of {}\nnetworks are judged by {} samples, of which {}\n",
            std::min(options.num_samples, training.size()), whole->size(), whole->source(),
            judged.inputs->size(),
            held_out == judged.inputs->size() ? "none calibrates"
                                              : fmt::format("{} are held out", held_out)));
      }};
  const SearchReport report = search_network(std::move(network), {training, validation, splits.is_divided},
                                             search, command.random, context);
  say_report(report, folder, results);
  if (group.is_first()) warn_of_bad_best(report);
  if (group.is_first() && results.are_kept()) add_report(results, report, command, *whole);
  results.finish();
  if (const int signal = StopSignals::received(); signal != 0) {
    throw Interrupted(signal, fmt::format("stopped by {}, all is saved; go on with\n  {}",
                                          signal_name(signal), resume_command(process_arguments(), command)));
  }
}

}  // namespace detent
