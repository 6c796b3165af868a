#include "detent/cli/network/session.h"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/datasets/fingerprint.h"
#include "detent/graph/activation_memory.h"
#include "detent/graph/fingerprint.h"
#include "detent/graph/operators.h"
#include "detent/graph/source_names.h"
#include "detent/graph/state_dict.h"
#include "detent/cli/file_kind.h"
#include "detent/cli/named_values.h"
#include "detent/cli/read_network.h"
#include "detent/io/graph_file.h"
#include "detent/io/torch_checkpoint.h"
#include "detent/models/model.h"
#include "detent/workers/worker_agreement.h"

namespace detent {
namespace {

/// In the order in which the network takes them.
std::vector<SampleInput> inputs_of(const Graph& graph) {
  std::vector<SampleInput> inputs;
  for (const std::string& node : graph.input_names()) {
    inputs.push_back({source_name(graph, NodeInput::of(node)), graph.input_types().find(node)->second.dtype});
  }
  return inputs;
}

/// The size of the images that a network takes.
struct ImageDimensions {
  Dimension height;
  Dimension width;

  /// Only squares can be scaled and cut to.
  bool takes_own_size() const { return height.is_named() || width.is_named() || !(height == width); }
};

/// Those of an image_folder whose size no option says; nullopt where one does, or where the network takes
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
  return {.data_dir = options.data_dir.value_or(""),
          .image_size = options.image_size.value_or(DatasetOptions().image_size),
          .own_image_size = takes_own_image_size(command),
          .one_image_size = command.name == "train" || command.name == "search" || has_fixed_batch(command),
          .classes = options.classes.value_or(""),
          .labels = options.labels.value_or(""),
          .skip_broken = options.skip_broken,
          .inputs = command.network ? inputs_of(*command.network) : std::vector<SampleInput>(),
          .transforms = options.transforms,
          .seed = options.seed};
}

Graph build_network(const TorchCommand& command, const Dataset& dataset) {
  DETENT_CHECK(command.options.model.has_value(), "no model");
  const int64_t classes =
      dataset.class_count() > 0 ? dataset.class_count() : find_model(*command.options.model).class_count;
  Graph graph = build_model(*command.options.model, dataset.sample_shape(), classes);
  command.random.initialize(graph);
  return graph;
}

std::string classes_text(const Dataset& dataset) {
  return fmt::format(
      "the data set ({}) has {} classes; where an image_folder has only some of the network's, "
      "name all of them with --classes FILE",
      dataset.source(), dataset.class_count());
}

/// "float32 [1, 3, 224, 224], int64 [1, 16]": of a batch of one sample.
std::string inputs_text(std::span<const SampleInput> inputs, const std::vector<Shape>& shapes) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Shape shape = shapes[i];
    shape.insert(shape.begin(), 1);
    parts.push_back(fmt::format("{} {}", dtype_name(inputs[i].dtype), shape_text(shape)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// The sizes that the network leaves open, the batch apart, as samples of these shapes have them; none where
/// these do not fit.
std::optional<NamedSizes> sizes_of_samples(const Graph& graph, const Dataset& dataset,
                                           const std::vector<Shape>& shapes) {
  const std::vector<std::string> names = graph.input_names();
  if (names.size() != shapes.size()) return std::nullopt;
  NamedSizes sizes;
  for (size_t i = 0; i < names.size(); ++i) {
    const TensorType& type = graph.input_types().find(names[i])->second;
    Shape shape = shapes[i];
    shape.insert(shape.begin(), type.shape.empty() || type.shape[0].is_named() ? 1 : type.shape[0].size);
    if (type.dtype != dataset.inputs()[i].dtype || !type.matches(shape, sizes)) return std::nullopt;
  }
  sizes.erase(kBatchName);
  return sizes;
}

/// "128", or "100 to 140" of samples of several sizes.
std::string range_text(const std::string& name, const std::vector<NamedSizes>& sizes) {
  const auto size = [&](const NamedSizes& one) { return one.at(name); };
  const auto [least, most] = std::ranges::minmax(sizes, {}, size);
  return size(least) == size(most) ? std::to_string(size(least))
                                   : fmt::format("{} to {}", size(least), size(most));
}

/// The network with these usual sizes of what it leaves open.
Graph with_usual_sizes(const Graph& graph, const NamedSizes& sizes) {
  std::map<std::string, TensorType> types;
  for (auto [name, type] : graph.input_types()) {
    for (Dimension& dimension : type.shape) {
      const auto size = dimension.is_named() ? sizes.find(dimension.symbol) : sizes.end();
      if (size != sizes.end()) dimension.size = size->second;
    }
    types.emplace(name, std::move(type));
  }
  return with_input_types(graph, types);
}

/// What computes on parts of the network, or counts what it costs, takes the sizes of the first samples.
Graph with_sizes_of_samples(const Graph& graph, const std::vector<NamedSizes>& sizes) {
  if (sizes.front().empty()) return graph;
  for (const auto& [name, size] : sizes.front())
    spdlog::info("{} = {}, as the samples have it", name, range_text(name, sizes));
  return with_usual_sizes(graph, sizes.front());
}

/// A whole network brings its own input shapes and classes: they must be the data set's. A file of labels may
/// leave out classes.
Graph fitted_to_data(const Graph& graph, const Dataset& dataset, const RunOptions& options) {
  const std::string& file = *options.load;
  std::vector<NamedSizes> sizes;
  for (size_t i = 0; i < dataset.size_count(); ++i) {
    const std::vector<Shape> shapes = dataset.shapes(i);
    const std::optional<NamedSizes> found = sizes_of_samples(graph, dataset, shapes);
    if (found) {
      sizes.push_back(*found);
      continue;
    }
    std::vector<std::string> wanted;
    for (const std::string& name : graph.input_names())
      wanted.push_back(tensor_type_text(graph.input_types().find(name)->second));
    fail("{}: graph \"{}\" takes {}, the data set has {}", file, graph.name(), fmt::join(wanted, ", "),
         inputs_text(dataset.inputs(), shapes));
  }
  const Graph fitted = with_sizes_of_samples(graph, sizes);
  if (dataset.class_count() == 0) return fitted;
  const ValueTypes values = infer_shapes(fitted);
  const Shape output = values.at(value_name(graph.nodes().back().inputs[0])).shape;
  const int64_t classes = output.size() == 2 && output[0] == 1 ? output[1] : 0;
  const bool fits = options.labels ? classes >= dataset.class_count() : classes == dataset.class_count();
  if (!fits) {
    fail("{}: graph \"{}\" gives outputs of shape {}, {}", file, graph.name(), shape_text(output),
         classes_text(dataset));
  }
  return fitted;
}

/// What was told, unless the file is something else, or what the file says. Folders hold graphs.
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
  spdlog::info("image_size = {}, as the network takes", *options.image_size);
}

}  // namespace

void read_whole_network(TorchCommand& command) {
  if (!command.options.load) return;
  const FileKind& kind = kind_to_load(command.options);
  if (!command.options.load_type && !std::filesystem::is_directory(*command.options.load))
    spdlog::info("{} is {}: load_type = {}", *command.options.load, kind.text, kind.load_type);
  if (!kind.holds_graph()) return;
  command.network = std::make_shared<const Graph>(
      read_network(*command.options.load, listed_shapes(command.options.shape.value_or(""))));
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
    Graph graph = fitted_to_data(*command.network, dataset, options);
    if (options.model && find_model(*options.model).name != graph.name()) {
      spdlog::warn("{} holds \"{}\", not the model \"{}\"", *options.load, graph.name(), *options.model);
    }
    return graph;
  }
  Graph graph = build_network(command, dataset);
  const auto read = std::get<StateDictReader>(kind_to_load(options).read);
  const StateDict state = without_wrapper_prefixes(read(*options.load));
  try {
    load_state_dict(graph, state, *options.load);
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
  spdlog::info("{}: {} parameters are stored as packed integers: training resumes from their rounded values",
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
    inputs[fmt::format("the fingerprint of the {}", name)] = fmt::format("{:08x}", data_fingerprint(*split));
  }
  inputs["the fingerprint of the network"] = fmt::format("{:016x}", network_fingerprint(graph));
  check_workers_agree(inputs, group);
}

bool is_quantized(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) { return !node.quantization.empty(); });
}

}  // namespace detent
