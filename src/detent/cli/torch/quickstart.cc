#include <cmath>
#include <filesystem>

#include <fmt/core.h>

#include "detent/cli/print.h"
#include "detent/cli/network/calibration.h"
#include "detent/cli/torch/commands.h"
#include "detent/cli/torch/quickstart_schemes.h"
#include "detent/core/log.h"
#include "detent/core/progress.h"
#include "detent/core/text_table.h"
#include "detent/datasets/digits.h"
#include "detent/datasets/training_splits.h"
#include "detent/evaluation/evaluate.h"
#include "detent/execution/initialize.h"
#include "detent/engine/fast_executor.h"
#include "detent/graph/state_dict.h"
#include "detent/io/folder_lock.h"
#include "detent/io/output_folder.h"
#include "detent/io/toml.h"
#include "detent/io/torch_checkpoint.h"
#include "detent/models/model.h"
#include "detent/passes/average_bits.h"
#include "detent/passes/mase_graph.h"
#include "detent/passes/pass.h"
#include "detent/training/trainer.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

constexpr int kNetworks = 5;
constexpr int64_t kEpochs = 12;
constexpr int64_t kTuningEpochs = 5;

/// One of the networks, with the digits that it is trained on and the fifth of all that it is tested on.
struct Network {
  int number = 0;
  uint64_t seed = 0;
  std::unique_ptr<Dataset> training_set;
  std::unique_ptr<Dataset> validation_set;  // empty: nothing is chosen, what counts is the last epoch
  std::unique_ptr<Dataset> test_set;
  Graph graph = {};
  PassContext context = {};

  bool writes_files() const { return number == 0; }
  Metrics test(const Graph& tested) const {
    return evaluate(*FastExecutor().compile(tested), tested, *test_set, 128);
  }
};

std::vector<Network> networks_for(const std::shared_ptr<const Dataset>& digits, uint64_t seed) {
  std::vector<Network> networks;
  for (int number = 0; number < kNetworks; ++number) {
    std::vector<int64_t> parts[2];
    for (int64_t i = 0; i < digits->size(); ++i) parts[i % kNetworks == number ? 1 : 0].push_back(i);
    networks.push_back({.number = number,
                        .seed = seed + static_cast<uint64_t>(number),
                        .training_set = make_dataset_part(digits, std::move(parts[0])),
                        .validation_set = make_dataset_part(digits, {}),
                        .test_set = make_dataset_part(digits, std::move(parts[1]))});
  }
  return networks;
}

/// Returns what the last epoch gave on the training set.
Metrics train_network(Graph& graph, const Network& network, double learning_rate, int64_t epochs) {
  TrainingOptions options;
  options.learning_rate = learning_rate;
  options.max_epochs = epochs;
  options.batch_size = 32;
  options.log_every_n_steps = 1000;
  Metrics last;
  TrainingHooks hooks;
  hooks.on_epoch = [&](const EpochReport& report) { last = report.training; };
  seed_everything(network.seed);  // neither depends on what was trained before
  train(graph, *network.training_set, *network.validation_set, options, hooks);
  return last;
}

/// Mean and standard deviation of some accuracies.
struct Accuracy {
  double mean = 0;
  double deviation = 0;

  explicit Accuracy(const std::vector<double>& values) {
    const auto count = static_cast<double>(values.size());
    for (const double value : values) mean += value / count;
    for (const double value : values) deviation += (value - mean) * (value - mean) / (count - 1);
    deviation = std::sqrt(deviation);
  }
  std::string text() const { return fmt::format("{:.1f} +- {:.1f}%", 100 * mean, 100 * deviation); }
  std::string change_from(const Accuracy& other) const {
    return fmt::format("{:+.1f}", 100 * (mean - other.mean));
  }
};

Accuracy train_networks(std::vector<Network>& networks, const Dataset& digits, const fs::path& folder,
                        OutputFolder& outputs) {
  std::vector<double> accuracies;
  for (Network& network : networks) {
    seed_everything(network.seed);
    network.graph = build_model("digits_cnn", digits.sample_shape(), digits.class_count());
    initialize_parameters(network.graph);
    if (network.number == 0) {
      print(fmt::format(
          "1. Training {} ({} parameters) {} times, each on four fifths of {} handwritten digits\n",
          network.graph.name(), network.graph.parameter_count(), kNetworks, digits.size()));
    }
    const Metrics training = train_network(network.graph, network, 3e-3, kEpochs);
    const Metrics test = network.test(network.graph);
    accuracies.push_back(test.accuracy());
    print(fmt::format("  network {}/{}  train: {}  other fifth: {}\n", network.number + 1, kNetworks,
                      training.text(), test.text()));
    if (network.writes_files()) {
      write_state_dict(outputs.staged(folder / "float.pt"), state_dict(network.graph));
    }
  }
  return Accuracy(accuracies);
}

/// Prints about the first one.
void profile_network(Network& network, const fs::path& folder, const std::shared_ptr<OutputFolder>& outputs,
                     const RandomSource& random, FastExecutor& executor) {
  network.context = make_pass_context(*network.training_set, random, 128, folder, executor);
  network.context.outputs = outputs;
  if (!network.writes_files()) network.context.report = [](const std::string&) {};
  Table passes;
  passes["profile_statistics"] = quickstart_profile_options(network.graph);
  if (network.writes_files())
    passes["save_node_meta_param"] = Table{{"save_path", (folder / "statistics.toml").string()}};
  run_pipeline(network.graph, passes, "quickstart", network.context);
}

struct SchemeResult {
  double accuracy = 0;
  double tuned_accuracy = 0;
  StorageBits bits;
};

/// Quantizes a copy of the network, evaluates it, trains it a little with quantization in the loop, evaluates
/// again.
SchemeResult try_scheme(Network& network, const QuickstartScheme& scheme, const fs::path& folder) {
  Graph quantized = network.graph.deep_copy();
  Table passes;
  passes["quantize"] = scheme_config(network.graph, scheme);
  network.context.output_dir = folder / scheme.name;
  run_pipeline(quantized, passes, scheme.name + ".toml", network.context);
  SchemeResult result{network.test(quantized).accuracy(), 0, storage_bits(quantized)};
  if (network.writes_files()) {
    write_toml(network.context.to_write(folder / (scheme.name + ".toml")),
               {{"model", "digits_cnn"}, {"dataset", "digits"}, {"passes", passes}});
    save_mase_graph(quantized, network.context.to_write(folder / scheme.name));
  }
  train_network(quantized, network, 2e-3, kTuningEpochs);
  result.tuned_accuracy = network.test(quantized).accuracy();
  if (network.writes_files()) {
    save_mase_graph(quantized, network.context.to_write(folder / (scheme.name + "_tuned")));
  }
  return result;
}

void add_scheme_row(std::vector<Network>& networks, const QuickstartScheme& scheme, const Accuracy& of_float,
                    const fs::path& folder, TextTable& table) {
  std::vector<double> accuracies;
  std::vector<double> tuned;
  StorageBits bits;
  for (Network& network : networks) {
    const SchemeResult result = try_scheme(network, scheme, folder);
    accuracies.push_back(result.accuracy);
    tuned.push_back(result.tuned_accuracy);
    bits = result.bits;
  }
  const Accuracy accuracy(accuracies);
  const Accuracy tuned_accuracy(tuned);
  table.add_row({scheme.title, fmt::format("{:.2f}", bits.average_weight_bits()),
                 fmt::format("{}", bits.weight_bytes()), accuracy.text(), accuracy.change_from(of_float),
                 tuned_accuracy.text(), tuned_accuracy.change_from(of_float)});
}

}  // namespace

void run_quickstart(const TorchCommand& command) {
  const fs::path& folder = command.software_dir;
  const auto warn = [](const std::string& text) { spdlog::warn("{}", text); };
  const FolderLock lock(folder, "detent quickstart", warn);
  const auto outputs = std::make_shared<OutputFolder>(folder, command.options.overwrite, warn);
  outputs->check_names({"float.pt", "statistics.toml"});
  const std::shared_ptr<const Dataset> digits = make_all_digits();
  std::vector<Network> networks = networks_for(digits, static_cast<uint64_t>(command.options.seed));
  const Accuracy of_float = train_networks(networks, *digits, folder, *outputs);

  print("2. Profiling weights and activations\n  ");
  FastExecutor executor;
  for (Network& network : networks) profile_network(network, folder, outputs, command.random, executor);

  print(fmt::format("3. Quantizing, and fine-tuning each result for {} epochs\n\n", kTuningEpochs));
  const StorageBits float_bits = storage_bits(networks.front().graph);
  TextTable table({"format", "weight bits", "bytes", "accuracy", "change", "fine-tuned", "change "});
  table.add_row({"float32", fmt::format("{:.2f}", float_bits.average_weight_bits()),
                 fmt::format("{}", float_bits.weight_bytes()), of_float.text(), "-", "-", "-"});
  Progress progress("formats", std::ssize(quickstart_schemes()));
  int64_t done = 0;
  for (const QuickstartScheme& scheme : quickstart_schemes()) {
    add_scheme_row(networks, scheme, of_float, folder, table);
    progress.update(++done, scheme.title);
  }
  progress.finish();
  outputs->commit();
  print(fmt::format(
      "{}\nAccuracy on the fifth of the digits that a network was not trained on: mean and standard "
      "deviation\n"
      "of {} networks. Weight bits count scales and what stays float32 (batch norm).\n"
      "Files in {}, of the first network: float.pt, statistics.toml, and for each format its configuration\n"
      "<format>.toml and its graphs <format>/graph_module.mz and <format>_tuned/graph_module.mz.\n",
      table.to_text(), kNetworks, folder.string()));
}

}  // namespace detent
