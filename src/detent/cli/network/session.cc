#include "detent/cli/network/session.h"

#include <algorithm>
#include <array>
#include <utility>

#include "detent/cli/file_kind.h"
#include "detent/cli/network/loaded_network.h"
#include "detent/cli/read_network.h"
#include "detent/cli/results.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/datasets/dataset.h"
#include "detent/datasets/datasets.h"
#include "detent/datasets/whole_samples.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/array_files.h"
#include "detent/files/safetensors.h"
#include "detent/graph/graph_parameters.h"
#include "detent/graph/node_names.h"
#include "detent/graph/operators.h"
#include "detent/graph/value_sizes.h"
#include "detent/graph_files/graph_file.h"
#include "detent/language/language_graph.h"
#include "detent/models/model.h"
#include "detent/onnx/import_onnx.h"
#include "detent/workers/worker_agreement.h"
#include "detent/workflows/network_data.h"

namespace detent {
namespace {

/// Tokens of a sample of a text: no more than a causal network takes.
int64_t text_window_of(const Graph& graph) {
  constexpr int64_t kUsual = 512;
  const Node* context = graph.find(kContextNode);
  if (context == nullptr) return kUsual;
  return std::min(kUsual, context->find_parameter("value")->tensor.values<int64_t>().front());
}

/// The size of the images that a network takes.
struct ImageDimensions {
  Dimension height;
  Dimension width;

  /// Only squares can be scaled and cut to.
  bool takes_own_size() const { return height.is_named() || width.is_named() || !(height == width); }
};

/// Sizes of an image_folder whose size no option says; nullopt where one does, or where the network takes
/// other inputs.
std::optional<ImageDimensions> open_image(const RunOptions& options, const Graph& network) {
  if (options.image_size || options.transforms.center_crop) return std::nullopt;
  if (!options.dataset || dataset_info(*options.dataset).name != "image_folder") return std::nullopt;
  const auto& types = network.input_types();
  if (types.size() != 1 || types.begin()->second.shape.size() != 4) return std::nullopt;
  const std::vector<Dimension>& shape = types.begin()->second.shape;
  const size_t first = options.transforms.layout == ImageLayout::kNhwc ? 1 : 2;
  return ImageDimensions{shape[first], shape[first + 1]};
}

bool takes_own_image_size(const TorchCommand& command) {
  if (!command.network) return false;
  const std::optional<ImageDimensions> image = open_image(command.options, *command.network);
  return image && image->takes_own_size();
}

/// Whether several samples have to run together.
bool has_fixed_batch(const TorchCommand& command) {
  return command.network && fixed_samples(*command.network).value_or(1) > 1;
}

DatasetOptions dataset_options(const TorchCommand& command) {
  const RunOptions& options = command.options;
  DETENT_CHECK(options.dataset.has_value(), "no data set");
  if (command.network) expect_inputs(*command.network, options.load.value_or(command.name));
  DatasetOptions result = {
      .data_dir = options.data_dir.value_or(""),
      .image_size = options.image_size.value_or(DatasetOptions().image_size),
      .own_image_size = takes_own_image_size(command),
      .one_image_size = command.name == "train" || command.name == "search" || has_fixed_batch(command),
      .classes = options.classes.value_or(""),
      .labels = options.labels.value_or(""),
      .skip_broken = options.skip_broken,
      .inputs = command.network ? sample_inputs(*command.network) : std::vector<SampleInput>(),
      .transforms = options.transforms,
      .seed = options.seed};
  if (command.network && command.network->input_types().contains(kTokensInput)) {
    result.text_window = text_window_of(*command.network);
    result.tokenize = command.tokenize;
  }
  return result;
}

Graph build_network(const TorchCommand& command, const Dataset& dataset) {
  DETENT_CHECK(command.options.model.has_value(), "no model");
  const int64_t classes =
      dataset.class_count() > 0 ? dataset.class_count() : find_model(*command.options.model).class_count;
  Graph graph = build_model(*command.options.model, dataset.sample_shape(), classes);
  command.random.initialize(graph);
  return graph;
}

/// The kind that was told, unless the file is something else, or the file's own. Folders hold graphs.
const FileKind& kind_to_load(const RunOptions& options) {
  const std::string& file = *options.load;
  const FileKind* told = options.load_type ? &options.load_type->kind() : nullptr;
  if (std::filesystem::is_directory(file)) return told != nullptr ? *told : file_kind(graph_file(file));
  const FileKind& found = file_kind(file);
  if (found.load_type == nullptr)
    fail("{}: it is {}, expected a graph or the parameters of a network", file, found.text);
  if (told == nullptr) return found;
  if (std::string_view(told->text) != found.text) {
    fail("{}: it is {} (load_type = {}), got load_type = {}", file, found.text, found.load_type,
         told->load_type);
  }
  return *told;
}

void fit_images_to_network(RunOptions& options, const Graph& network) {
  const std::optional<ImageDimensions> image = open_image(options, network);
  if (!image || image->takes_own_size()) return;
  options.image_size = image->height.size;
  log_info("image_size = {}, as the network takes", *options.image_size);
}

/// Arrays by name that are to calibrate with: of a folder, those of its first file.
NamedTensors named_samples(const RunOptions& options) {
  std::filesystem::path file = options.data_dir.value_or("");
  if (options.dataset != "unlabelled") return {};
  if (std::filesystem::is_directory(file)) {
    const std::vector<std::filesystem::path> files = arrays_in(file);
    if (files.empty()) return {};
    file = files.front();
  }
  if (file.extension() == ".npz") return read_npz(file);
  return file.extension() == ".safetensors" ? read_safetensors(file).tensors : NamedTensors();
}

/// One sample's shapes, by name; `is_stacked`: the arrays are [n, ...] of whole inputs.
InputShapes shapes_of_samples(const RunOptions& options, bool is_stacked) {
  InputShapes shapes;
  for (const auto& [name, tensor] : named_samples(options)) {
    Shape shape = tensor.shape();
    if (shape.empty()) continue;
    if (is_stacked) shape.erase(shape.begin());
    if (!is_stacked) shape.front() = 1;
    shapes.emplace(name, std::move(shape));
  }
  return shapes;
}

/// Nothing where the network takes no such sizes.
std::optional<Graph> network_for_samples(const RunOptions& options) {
  for (const bool is_stacked : {false, true}) {
    const InputShapes shapes = shapes_of_samples(options, is_stacked);
    if (shapes.empty()) break;
    try {
      return read_network(*options.load, shapes);
    } catch (const Error& error) {
      log_debug("not at the sizes of the samples: {}", error.what());
    }
  }
  return std::nullopt;
}

/// Whether inputs of a sample's sizes go through the network; those that are missing are no fault of it.
bool runs_at(const Graph& graph, const InputShapes& shapes) {
  GivenInputs given{.shapes = shapes, .arrays = {}};
  std::erase_if(given.shapes, [&](const auto& input) { return !takes_shapes(graph, {input}); });
  try {
    static_cast<void>(
        FastExecutor().compile(graph)->run(input_tensors(graph, given, given_sizes(graph, given))));
  } catch (const Error& error) {
    log_debug("the samples' sizes: {}", error.what());
    return false;
  }
  return true;
}

bool fits_samples(const Graph& graph, const RunOptions& options) {
  const InputShapes of_one = shapes_of_samples(options, false);
  if (of_one.empty()) return true;
  const InputShapes whole = shapes_of_samples(options, true);
  const bool takes_one = takes_shapes(graph, of_one, true);
  if (!takes_one && !takes_shapes(graph, whole)) return false;
  return !lacks_branches(graph) || runs_at(graph, takes_one ? of_one : whole);
}

/// At the sizes of the samples where the network takes none of the usual ones, or others than these.
Graph read_network_for(const RunOptions& options) {
  const InputShapes given = listed_shapes(options.shape.value_or(""));
  if (!given.empty()) return read_network(*options.load, given);
  std::optional<Graph> graph;
  try {
    graph = read_network(*options.load);
  } catch (const Error&) {
    graph = network_for_samples(options);
    if (!graph) throw;
    return std::move(*graph);
  }
  if (fits_samples(*graph, options)) return std::move(*graph);
  std::optional<Graph> fitting = network_for_samples(options);
  return fitting ? std::move(*fitting) : std::move(*graph);
}

}  // namespace

void read_whole_network(TorchCommand& command) {
  if (!command.options.load) return;
  const FileKind& kind = kind_to_load(command.options);
  if (!command.options.load_type && !std::filesystem::is_directory(*command.options.load))
    log_info("{} is {}: load_type = {}", *command.options.load, kind.text, kind.load_type);
  if (!kind.holds_graph()) return;
  Graph network = read_network_for(command.options);
  const bool is_run_as_it_is = command.name == "test" || command.name == "run";
  if (!is_run_as_it_is) network = network_to_quantize(network, *command.options.load);
  command.network = std::make_shared<const Graph>(std::move(network));
  fit_images_to_network(command.options, *command.network);
}

std::unique_ptr<Dataset> load_split(const TorchCommand& command, Split split) {
  return make_dataset(*command.options.dataset, split, dataset_options(command));
}

TrainingSplits load_training_splits(const TorchCommand& command) {
  const RunOptions& options = command.options;
  return make_training_splits(*options.dataset, options.validation_split, dataset_options(command));
}

CalibrationSplits load_calibration_splits(const TorchCommand& command, int64_t most) {
  return make_calibration_splits(*command.options.dataset, most, dataset_options(command));
}

Graph load_network(const TorchCommand& command, const Dataset& dataset) {
  const RunOptions& options = command.options;
  if (!options.load) return build_network(command, dataset);
  if (command.network) {
    const DatasetInfo& info = dataset_info(*options.dataset);
    const bool has_numbers =
        info.class_count == 0 && !info.has_images;  // which need not reach the last class
    Graph graph =
        fitted_to_data(*command.network, dataset, *options.load, options.labels.has_value() || has_numbers);
    if (options.model && find_model(*options.model).name != graph.name()) {
      log_warning("{} holds \"{}\", not the model \"{}\"", *options.load, graph.name(), *options.model);
    }
    return graph;
  }
  Graph graph = build_network(command, dataset);
  try {
    read_parameters(graph, kind_to_load(options), *options.load);
  } catch (const Error& error) {
    const bool other_count = dataset.class_count() != find_model(*options.model).class_count;
    if (!other_count) throw;
    fail("{} ({})", error.what(), classes_text(dataset));
  }
  return graph;
}

Graph load_teacher(const TorchCommand& command, const Dataset& dataset) {
  TorchCommand loading = command;
  loading.options.load = *command.options.teacher;
  loading.options.load_type.reset();
  loading.network.reset();
  read_whole_network(loading);
  if (!loading.network && !loading.options.model) {
    fail("--teacher: {} holds parameters, of which no model is named: give a graph or an ONNX model",
         *command.options.teacher);
  }
  return load_network(loading, dataset);
}

void say_weights_are_rounded(const RunOptions& options) {
  if (!options.load || kind_to_load(options) != graph_kind()) return;
  const std::filesystem::path file = graph_file(*options.load);
  const int64_t packed = packed_parameter_count(file);
  if (packed == 0) return;
  log_info("{}: {} parameters are stored as packed integers: training resumes from their rounded values",
           file.string(), packed);
}

void check_workers_agree_on_settings(const TorchCommand& command, ProcessGroup& group) {
  constexpr std::array kOfEachWorker = {"load",           "teacher",     "load_type",   "project_dir",
                                        "project",        "data_dir",    "accelerator", "num_threads",
                                        "log_level",      "num_workers", "report_to",   "overwrite",
                                        "worker_timeout", "json",        "report"};
  Table settings = write_fields(command.options);
  for (const char* name : kOfEachWorker) settings.erase(name);
  settings["command"] = command.name;
  settings["passes"] = command.passes;
  settings["search"] = command.search;
  settings["workers"] = group.size();
  check_workers_agree(settings, group);
}

void check_workers_agree_on_inputs(const Graph& graph,
                                   std::initializer_list<std::pair<const char*, const Dataset*>> splits,
                                   ProcessGroup& group) {
  if (group.size() == 1) return;
  Table inputs;
  for (const auto& [name, split] : splits) {
    inputs[fmt::format("the number of {}", name)] = split->size();
    inputs[fmt::format("the fingerprint of the {}", name)] = fmt::format("{:016x}", data_fingerprint(*split));
  }
  inputs["the fingerprint of the network"] = fmt::format("{:016x}", network_fingerprint(graph));
  check_workers_agree(inputs, group);
}

PassContext make_pass_context(const Dataset& dataset, const RandomSource& random, int64_t batch_size,
                              std::filesystem::path output_dir, Executor& executor,
                              std::function<void(const std::string&)> report) {
  PassContext context = calibration_context(dataset, random, batch_size, std::move(output_dir), executor);
  context.report = std::move(report);
  return context;
}

}  // namespace detent
