#include <filesystem>

#include <fmt/core.h>

#include "detent/cli/print.h"
#include "detent/cli/torch/calibration.h"
#include "detent/cli/torch/commands.h"
#include "detent/cli/torch/quickstart_schemes.h"
#include "detent/cli/torch/session.h"
#include "detent/core/log.h"
#include "detent/core/progress.h"
#include "detent/core/text_table.h"
#include "detent/execution/initialize.h"
#include "detent/execution/interpreter.h"
#include "detent/graph/state_dict.h"
#include "detent/io/folder_lock.h"
#include "detent/io/toml.h"
#include "detent/io/torch_checkpoint.h"
#include "detent/passes/average_bits.h"
#include "detent/passes/mase_graph.h"
#include "detent/passes/pass.h"
#include "detent/training/trainer.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

TrainingOptions training_options(double learning_rate, int64_t epochs) {
  TrainingOptions options;
  options.learning_rate = learning_rate;
  options.max_epochs = epochs;
  options.batch_size = 32;
  options.log_every_n_steps = 1000;
  return options;
}

/// The data and the folder that all steps share.
struct Workshop {
  const Dataset& training_set;
  const Dataset& validation_set;
  const Dataset& test_set;
  fs::path folder;
  uint64_t seed;

  Metrics test(const Graph& graph) const { return evaluate(graph, test_set, 128); }
};

void train_network(Graph& graph, const Workshop& shop) {
  const TrainingOptions options = training_options(3e-3, 15);
  TrainingHooks hooks;
  hooks.on_epoch = [&](const EpochReport& report) {
    if (report.epoch % 5 != 0) return;
    print(fmt::format("  epoch {:2}/{}  train: {}  validation: {}\n", report.epoch, options.max_epochs,
                      report.training.text(), report.validation.text()));
  };
  train(graph, shop.training_set, shop.validation_set, options, hooks);
  write_state_dict(shop.folder / "float.pt", state_dict(graph));
}

void profile_network(Graph& graph, const Workshop& shop, PassContext& context) {
  Table passes;
  for (const char* name : {"init_metadata", "add_common_metadata", "add_software_metadata"})
    passes.table(name);
  passes["profile_statistics"] = quickstart_profile_options();
  passes["save_node_meta_param"] = Table{{"save_path", (shop.folder / "statistics.toml").string()}};
  run_pipeline(graph, passes, "quickstart", context);
}

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }
std::string change(double from, double to) { return fmt::format("{:+.1f}", 100 * (to - from)); }

/// Quantizes a copy of `graph`, evaluates it, trains it a little with quantization in the loop, evaluates
/// again.
void add_scheme_row(const Graph& graph, const QuickstartScheme& scheme, const Workshop& shop,
                    double float_accuracy, PassContext& context, TextTable& table) {
  Graph quantized = graph.deep_copy();
  Table passes;
  passes["quantize"] = scheme_config(graph, scheme);
  write_toml(shop.folder / (scheme.name + ".toml"),
             {{"model", "digits_cnn"}, {"dataset", "digits"}, {"passes", passes}});
  context.output_dir = shop.folder / scheme.name;
  run_pipeline(quantized, passes, scheme.name + ".toml", context);
  const double accuracy = shop.test(quantized).accuracy();
  save_mase_graph(quantized, shop.folder / scheme.name);

  const StorageBits bits = storage_bits(quantized);
  seed_everything(shop.seed);  // a row does not depend on those above it
  train(quantized, shop.training_set, shop.validation_set, training_options(2e-3, 6));
  const double tuned_accuracy = shop.test(quantized).accuracy();
  save_mase_graph(quantized, shop.folder / (scheme.name + "_tuned"));
  table.add_row({scheme.title, fmt::format("{:.2f}", bits.average_weight_bits()),
                 fmt::format("{}", bits.weight_bytes()), percent(accuracy), change(float_accuracy, accuracy),
                 percent(tuned_accuracy), change(float_accuracy, tuned_accuracy)});
}

}  // namespace

void run_quickstart(const TorchCommand& given) {
  TorchCommand command = given;
  command.options.model = "digits_cnn";
  command.options.dataset = "digits";
  const FolderLock lock(command.software_dir, "detent quickstart",
                        [](const std::string& text) { spdlog::warn("{}", text); });
  const auto training_set = load_split(command, Split::kTrain);
  const auto validation_set = load_split(command, Split::kValidation);
  const auto test_set = load_split(command, Split::kTest);
  const Workshop shop{*training_set, *validation_set, *test_set, command.software_dir,
                      static_cast<uint64_t>(command.options.seed)};

  Graph graph = load_network(command, *training_set);
  print(fmt::format("1. Training {} ({} parameters) on {} handwritten digits\n", graph.name(),
                    graph.parameter_count(), training_set->size()));
  train_network(graph, shop);

  print("2. Profiling weights and activations\n  ");
  TorchExecutor executor;
  PassContext context = make_pass_context(*training_set, 128, shop.folder, executor);
  profile_network(graph, shop, context);

  print("3. Quantizing, and fine-tuning each result for 6 epochs\n\n");
  const StorageBits float_bits = storage_bits(graph);
  const double float_accuracy = shop.test(graph).accuracy();
  TextTable table({"format", "weight bits", "bytes", "accuracy", "change", "fine-tuned", "change "});
  table.add_row({"float32", fmt::format("{:.2f}", float_bits.average_weight_bits()),
                 fmt::format("{}", float_bits.weight_bytes()), percent(float_accuracy), "-", "-", "-"});
  {
    Progress progress("formats", std::ssize(quickstart_schemes()));
    for (const QuickstartScheme& scheme : quickstart_schemes()) {
      add_scheme_row(graph, scheme, shop, float_accuracy, context, table);
      progress.update(std::ssize(table.rows()) - 1, scheme.title);
    }
  }
  print(fmt::format(
      "{}\nAccuracy on {} held-out digits; weight bits count scales and what stays float32 (batch norm).\n"
      "Files in {}: float.pt, statistics.toml, and for each format its configuration <format>.toml and its\n"
      "graphs <format>/graph_module.mz and <format>_tuned/graph_module.mz.\n",
      table.to_text(), test_set->size(), shop.folder.string()));
}

}  // namespace detent
