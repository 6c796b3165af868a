#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <filesystem>

#include <fmt/core.h>

#include "detent/cli/network/commands.h"
#include "detent/cli/network/network_results.h"
#include "detent/cli/network/result_folder.h"
#include "detent/cli/network/session.h"
#include "detent/cli/network/study_folder.h"
#include "detent/cli/results.h"
#include "detent/core/error.h"
#include "detent/core/interruption.h"
#include "detent/core/log.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/search/comparison.h"
#include "detent/workflows/compare_network.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

ComparisonOptions options_of(const TorchCommand& command) {
  ComparisonOptions options;
  Table own = command.search;
  own.erase("quantization");
  read_fields(options, own, "detent compare");
  return options;
}

Table quantization_of(const TorchCommand& command) {
  const Value* table = command.search.find("quantization");
  return table == nullptr ? Table() : *table->get_if<Table>();
}

/// A name for the folder of a row's network.
std::string project_of(const ComparedFormat& format, const ComparedMethod& method) {
  std::string name = fmt::format("{}_{}", format.text(), method.name);
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '+'; },
      '_');
  return name;
}

/// This command's words without those that only it has.
std::vector<std::string> words_for_quantize() {
  constexpr std::array kOwn = {"--formats", "--methods", "--activations", "--prepare",
                               "--time",    "--resume",  "--overwrite",   "--json",
                               "--report",  "--project", "--eval-samples"};
  constexpr std::array kWithoutValue = {"--resume", "--overwrite", "--json"};
  const std::vector<std::string> given = process_arguments();
  auto word = std::ranges::find(given, "compare");
  std::vector<std::string> words = {"detent", "quantize"};
  for (word += word == given.end() ? 0 : 1; word != given.end(); ++word) {
    const std::string name = word->substr(0, word->find('='));
    if (std::ranges::find(kOwn, name) == kOwn.end()) {
      words.push_back(*word);
      continue;
    }
    const bool has_value = std::ranges::find(kWithoutValue, name) == kWithoutValue.end();
    if (has_value && name == *word && word + 1 != given.end()) ++word;
  }
  return words;
}

std::string joined_names(const Table& passes) {
  std::string names;
  for (const auto& [name, options] : passes) names += (names.empty() ? "" : ",") + name;
  return names.empty() ? "none" : names;
}

/// Command that quantizes the network to a row's format by its method.
std::string quantize_command(const ComparisonPlan& plan, const ComparedNetwork& network) {
  const ComparedFormat& format = plan.formats[network.format];
  const ComparedMethod& method = plan.methods[network.method];
  Table before = plan.prepare;
  for (const auto& [name, options] : method.before) before[name] = options;
  const std::vector<std::string> added = {"--weights",     format.weights,
                                          "--activations", format.activations,
                                          "--prepare",     joined_names(before),
                                          "--improve",     joined_names(method.after),
                                          "--project",     project_of(format, method)};
  std::vector<std::string> words = words_for_quantize();
  words.insert(std::ranges::find(words, "--"), added.begin(), added.end());  // options end there
  return shell_line(words);
}

/// The table, why rows are not there, and the commands of the others, those of the front first in sight.
void say_comparison(const ComparisonReport& report, CommandResults& results) {
  results.say(fmt::format("\n{}\n", comparison_table(report).to_text()));
  std::string text;
  for (size_t i = 0; i < report.networks.size(); ++i) {
    const ComparedNetwork& network = report.networks[i];
    if (!network.obstacle.empty()) text += fmt::format("{}: not possible: {}\n", i + 1, network.obstacle);
  }
  text += "the front, smallest first; each network is made by\n";
  std::vector<const ComparedNetwork*> front;
  for (const ComparedNetwork& network : report.networks)
    if (network.on_front) front.push_back(&network);
  std::ranges::stable_sort(front, {}, [](const ComparedNetwork* network) { return network->weight_bytes; });
  for (const ComparedNetwork* network : front)
    text += fmt::format("  {}\n", quantize_command(report.plan, *network));
  if (report.missing > 0)
    text += fmt::format("{} networks were not measured: go on with --resume, and with more --time or none\n",
                        report.missing);
  results.say(text);
}

Value with_commands(const ComparisonReport& report) {
  Value value = comparison_value(report);
  List& networks = *value.get_if<Table>()->find("networks")->get_if<List>();
  for (size_t i = 0; i < networks.size(); ++i) {
    if (report.networks[i].obstacle.empty())
      (*networks[i].get_if<Table>())["command"] = quantize_command(report.plan, report.networks[i]);
  }
  return value;
}

/// Which samples are used for what.
std::string samples_text(const CalibrationSplits& splits, int64_t calibrating, int64_t judging) {
  const int64_t whole = splits.calibration->size() + (splits.is_divided ? splits.test->size() : 0);
  return fmt::format("calibration: {} of {} samples of {}\nnetworks are judged by {} {}\n",
                     std::min(calibrating, splits.calibration->size()), whole, splits.calibration->source(),
                     judging, splits.is_divided ? "others of these" : "samples of " + splits.test->source());
}

Graph loaded_network(const TorchCommand& command, const ComparedSamples& samples) {
  check_compared_samples(samples);
  const Graph network =
      load_network(command, samples.calibration.has_labels() ? samples.calibration : samples.test);
  return network_to_compare(network, samples.calibration, *command.options.load);
}

}  // namespace

void run_compare(const TorchCommand& command, ProcessGroup& group) {
  const auto start = std::chrono::steady_clock::now();
  CommandResults results(command.name, result_options(command, group));
  const fs::path folder = command.software_dir / "compare";
  NetworkComparison comparison{.options = options_of(command),
                               .quantization = quantization_of(command),
                               .seed = command.options.seed,
                               .journal = folder / kComparisonJournal,
                               .start = start,
                               .where = "detent compare"};
  StaticQuantizeOptions others;
  read_fields(others, comparison.quantization, comparison.where);
  const CalibrationSplits splits = load_calibration_splits(command, others.num_samples);
  const ComparedSamples samples{*splits.calibration, *splits.test};
  Graph network = loaded_network(command, samples);
  const StopSignals signals("\ndetent: stopping; a second signal ends the program at once\n");
  FastExecutor executor;
  PassContext context =
      make_pass_context(samples.calibration, command.random, command.options.training.batch_size, folder,
                        executor, [&](const std::string& text) { results.say(text); });
  context.group = &group;
  context.loader_threads = command.options.num_workers;
  const StudyFolder compared(command, folder, comparison_files(),
                             comparison_settings(comparison, network, samples), group);
  comparison.resumes = compared.resumes();
  results.say(samples_text(splits, others.num_samples, judged_count(comparison.options, samples.test)));
  const ComparisonReport report =
      compare_network(std::move(network), samples, comparison, command.random, context);
  const Value value = with_commands(report);
  write_file(folder / kComparisonReport, json_text(value) + "\n");
  say_comparison(report, results);
  results.say(fmt::format("all of them, with their commands: {}\n", (folder / kComparisonReport).string()));
  if (results.are_kept()) {
    results.add("pareto", compared_front(report));
    results.add("comparison", value);
    add_configuration(results, command);
  }
  results.finish();
  if (const int signal = StopSignals::received(); signal != 0) {
    throw Interrupted(signal, fmt::format("stopped by {}, what was measured is saved; go on with\n  {}",
                                          signal_name(signal), resume_command(process_arguments(), command)));
  }
}

}  // namespace detent
