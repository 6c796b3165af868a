#include "detent/cli/network/quickstart.h"

#include <cmath>
#include <filesystem>

#include <fmt/core.h>

#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/cli/network/session.h"
#include "detent/cli/results.h"
#include "detent/core/log.h"
#include "detent/core/progress.h"
#include "detent/core/text_table.h"
#include "detent/datasets/datasets.h"
#include "detent/datasets/training_splits.h"
#include "detent/engine/fast_executor.h"
#include "detent/evaluation/evaluate.h"
#include "detent/files/file.h"
#include "detent/files/output_folder.h"
#include "detent/files/toml.h"
#include "detent/graph/graph_parameters.h"
#include "detent/models/model.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/passes/mase_graph.h"
#include "detent/passes/pass.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

constexpr int kNetworks = kTrainedDigits;
constexpr int64_t kEpochs = 12;
constexpr int64_t kTuningEpochs = 5;

/// One of the networks, with the digits that it is trained on and the fifth of all that it is tested on.
struct Network {
  int number = 0;
  uint64_t seed = 0;
  std::unique_ptr<Dataset> training_set;
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
                        .test_set = make_dataset_part(digits, std::move(parts[1]))});
  }
  return networks;
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

/// Makes a network, trained, and returns what to say of it.
std::string make_network(Network& network, const Dataset& digits, const QuickstartTraining* training) {
  if (training == nullptr) {
    network.graph = trained_digits_cnn(network.number);
    return "";
  }
  network.graph = build_model("digits_cnn", digits.sample_shape(), digits.class_count());
  training->initialize(network.graph, network.seed);
  return fmt::format(
      "train: {}  ",
      training->train(network.graph, *network.training_set, network.seed, 3e-3, kEpochs).text());
}

Accuracy make_networks(std::vector<Network>& networks, const Dataset& digits, const fs::path& folder,
                       OutputFolder& outputs, const QuickstartTraining* training) {
  const std::string each = fmt::format("each on four fifths of {} handwritten digits", digits.size());
  if (training == nullptr) {
    print(fmt::format("1. Loading digits_cnn, which comes trained with the program, {} times, {}\n",
                      kNetworks, each));
  } else {
    print(fmt::format("1. Training digits_cnn {} times, {}\n", kNetworks, each));
  }
  std::vector<double> accuracies;
  for (Network& network : networks) {
    const std::string of_training = make_network(network, digits, training);
    const Metrics test = network.test(network.graph);
    accuracies.push_back(test.accuracy());
    print(fmt::format("  network {}/{}  {}other fifth: {}\n", network.number + 1, kNetworks, of_training,
                      test.text()));
    if (network.writes_files()) {
      write_state_dict(outputs.staged(folder / "float.pt"), state_dict(network.graph));
    }
  }
  return Accuracy(accuracies);
}

void save_networks(const std::vector<Network>& networks, const TorchCommand& command) {
  std::string bytes;
  for (const Network& network : networks) {
    const std::vector<std::byte> parameters = trained_digits_bytes(network.graph);
    bytes.append(reinterpret_cast<const char*>(parameters.data()), parameters.size());
  }
  write_file(command.networks_file, bytes);
}

/// Prints about the first one.
void profile_network(Network& network, const fs::path& folder, const std::shared_ptr<OutputFolder>& outputs,
                     const RandomSource& random, FastExecutor& executor) {
  network.context = make_pass_context(*network.training_set, random, 128, folder, executor,
                                      [prints = network.writes_files()](const std::string& text) {
                                        if (prints) print(text);
                                      });
  network.context.outputs = outputs;
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

/// Quantizes a copy of the network, evaluates it; where there is training, fine-tunes it with fake
/// quantization in the loop, and evaluates again.
SchemeResult try_scheme(Network& network, const QuickstartScheme& scheme, const fs::path& folder,
                        const QuickstartTraining* training) {
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
  if (training == nullptr) return result;
  training->train(quantized, *network.training_set, network.seed, 2e-3, kTuningEpochs);
  result.tuned_accuracy = network.test(quantized).accuracy();
  if (network.writes_files()) {
    save_mase_graph(quantized, network.context.to_write(folder / (scheme.name + "_tuned")));
  }
  return result;
}

void add_scheme_row(std::vector<Network>& networks, const QuickstartScheme& scheme, const Accuracy& of_float,
                    const fs::path& folder, const QuickstartTraining* training, TextTable& table) {
  std::vector<double> accuracies;
  std::vector<double> tuned;
  StorageBits bits;
  for (Network& network : networks) {
    const SchemeResult result = try_scheme(network, scheme, folder, training);
    accuracies.push_back(result.accuracy);
    tuned.push_back(result.tuned_accuracy);
    bits = result.bits;
  }
  const Accuracy accuracy(accuracies);
  std::vector<std::string> row = {scheme.title, fmt::format("{:.2f}", bits.average_weight_bits()),
                                  fmt::format("{}", bits.weight_bytes()), accuracy.text(),
                                  accuracy.change_from(of_float)};
  if (training != nullptr) {
    const Accuracy tuned_accuracy(tuned);
    row.insert(row.end(), {tuned_accuracy.text(), tuned_accuracy.change_from(of_float)});
  }
  table.add_row(row);
}

TextTable table_of_formats(const Graph& graph, const Accuracy& of_float, bool is_tuned) {
  std::vector<std::string> columns = {"format", "weight bits", "bytes", "accuracy", "change"};
  const StorageBits bits = storage_bits(graph);
  std::vector<std::string> row = {"float32", fmt::format("{:.2f}", bits.average_weight_bits()),
                                  fmt::format("{}", bits.weight_bytes()), of_float.text(), "-"};
  if (is_tuned) {
    columns.insert(columns.end(), {"fine-tuned", "change "});
    row.insert(row.end(), {"-", "-"});
  }
  TextTable table(columns);
  table.add_row(row);
  return table;
}

void print_results(const TextTable& table, const fs::path& folder, bool is_tuned) {
  print(fmt::format(
      "{}\nAccuracy on the fifth of the digits that a network was not trained on: mean and standard "
      "deviation\n"
      "of {} networks. Weight bits count scales and what stays float32 (batch norm).\n"
      "Files in {}, of the first network: float.pt, statistics.toml, and for each format its configuration\n"
      "<format>.toml and its graph{} <format>/graph_module.mz{}.\n",
      table.to_text(), kNetworks, folder.string(), is_tuned ? "s" : "",
      is_tuned ? " and <format>_tuned/graph_module.mz" : ""));
  if (!is_tuned) {
    print(
        "Fine-tuning with fake quantization in the loop needs libtorch, of the Debian package "
        "detent-training or a "
        "program\nbuilt by `make build`; `detent quickstart` then trains.\n");
  }
}

}  // namespace

void run_quickstart(const TorchCommand& command, const QuickstartTraining* training) {
  const fs::path& folder = command.software_dir;
  const auto warn = [](const std::string& text) { log_warning("{}", text); };
  const FolderLock lock(folder, "detent quickstart", warn);
  const auto outputs = std::make_shared<OutputFolder>(folder, command.options.overwrite, warn);
  outputs->check_names({"float.pt", "statistics.toml"});
  const std::shared_ptr<const Dataset> digits = make_all_digits();
  std::vector<Network> networks = networks_for(digits, static_cast<uint64_t>(command.options.seed));
  const Accuracy of_float = make_networks(networks, *digits, folder, *outputs, training);
  if (!command.networks_file.empty()) save_networks(networks, command);

  print("2. Profiling weights and activations\n  ");
  FastExecutor executor;
  for (Network& network : networks) profile_network(network, folder, outputs, command.random, executor);

  print(training == nullptr
            ? "3. Quantizing\n\n"
            : fmt::format("3. Quantizing, and fine-tuning each result for {} epochs\n\n", kTuningEpochs));
  TextTable table = table_of_formats(networks.front().graph, of_float, training != nullptr);
  Progress progress("formats", std::ssize(quickstart_schemes()));
  int64_t done = 0;
  for (const QuickstartScheme& scheme : quickstart_schemes()) {
    add_scheme_row(networks, scheme, of_float, folder, training, table);
    progress.update(++done, scheme.title);
  }
  progress.finish();
  outputs->commit();
  print_results(table, folder, training != nullptr);
}

}  // namespace detent
