#include "detent/cli/run_config.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "detent/cli/file_kind.h"
#include "detent/cli/option_fields.h"
#include "detent/cli/read_network.h"
#include "detent/core/error.h"
#include "detent/datasets/dataset.h"
#include "detent/datasets/datasets.h"
#include "detent/datasets/image.h"
#include "detent/files/toml.h"
#include "detent/graph_files/graph_file.h"
#include "detent/language/language_model.h"
#include "detent/models/model.h"
#include "detent/passes/pass.h"

namespace detent {
namespace {

std::string program_name = "detent";

RunOptions default_options() {
  RunOptions options;
  if (program_name == "ch") options.project_dir = "mase_output";
  return options;
}

/// Begins messages about one key: `x.toml:3: key "seed"`.
std::string key_place(const std::string& file, const std::string& key, const Value& value) {
  const std::string line = value.line() > 0 ? fmt::format(":{}", value.line()) : "";
  return fmt::format("{}{}: key \"{}\"", file, line, key);
}

/// The original's other style works on modules, of which a graph has none.
void check_transform_section(const Table& section, const std::string& file) {
  for (const auto& [key, value] : section) {
    const std::string where = key_place(file, "transform." + key, value);
    if (key != "style") fail("{}: unknown key (known: style)", where);
    if (value != Value("graph")) fail("{}: got {}, expected \"graph\"", where, value_text(value));
  }
}

void check_passes(const Table& passes, const std::string& file) {
  for (const auto& [name, options] : passes) {
    try {
      find_pass(name);
    } catch (const Error& error) {
      const std::string line = options.line() > 0 ? fmt::format(":{}", options.line()) : "";
      fail("{}{}: [passes.{}]: {}", file, line, name, error.what());
    }
    if (!options.is<Table>()) {
      fail("{}: got {}, expected a table", key_place(file, "passes." + name, options), value_text(options));
    }
  }
}

const Table& section_of(const Value& value, const std::string& file, const std::string& name) {
  const Table* section = value.get_if<Table>();
  if (section == nullptr) {
    fail("{}: got {}, expected a table [{}]", key_place(file, name, value), value_text(value), name);
  }
  return *section;
}

struct FileContent {
  Table options;  // values of RunOptions fields, in file order
  Table passes;
  Table search;
};

FileContent read_config(const std::string& file) {
  if (std::filesystem::path(file).extension() != ".toml") {
    throw UsageError(fmt::format("--config: got \"{}\", expected a file whose name ends in .toml", file));
  }
  FileContent content;
  const Table table = read_toml(file);
  std::vector<std::string> known = field_names<RunOptions>();
  known.insert(known.end(), {"passes", "search", "transform"});
  for (const auto& [key, value] : table) {
    if (key == "passes") {
      content.passes = section_of(value, file, key);
      check_passes(content.passes, file);
    } else if (key == "search") {
      content.search = section_of(value, file, key);
    } else if (key == "transform") {
      check_transform_section(section_of(value, file, key), file);
    } else if (std::ranges::find(known, key) == known.end()) {
      const std::string line = value.line() > 0 ? fmt::format(":{}", value.line()) : "";
      fail("{}{}: {}", file, line, unknown_name_message("key", key, known));
    } else {
      content.options[key] = value;
    }
  }
  return content;
}

/// Where the effective value came from, to begin a message about it.
class Origins {
 public:
  Origins(std::string file, const FileContent& content, const GivenOptions& given)
      : file_(std::move(file)), content_(content), given_(given) {}

  const Value* given(const std::string& name) const {
    const Value* last = nullptr;
    for (const auto& [key, value] : given_) {
      if (key == name) last = &value;
    }
    return last;
  }
  const Value* from_file(const std::string& name) const { return content_.options.find(name); }

  std::string place(const std::string& name) const {
    const std::string& flag = option_field(name).flag;
    if (given(name) != nullptr) return flag;
    const Value* value = from_file(name);
    return value != nullptr ? key_place(file_, name, *value) : "default of " + flag;
  }

 private:
  std::string file_;
  const FileContent& content_;
  const GivenOptions& given_;
};

RunOptions merge(const std::string& file, const FileContent& content, const GivenOptions& given) {
  RunOptions options = default_options();
  for (const auto& [key, value] : content.options)
    set_option(options, key, value, key_place(file, key, value));
  for (const auto& [key, value] : given) set_flag(options, key, value);
  return options;
}

TextTable options_table(const RunOptions& options, const Origins& origins, bool has_file,
                        const std::string& command) {
  std::vector<std::string> header = {"Name", "Default", "Config. File", "Manual Override", "Effective"};
  if (!has_file) header.erase(header.begin() + 2);
  TextTable table(header);
  const Table defaults = write_fields(default_options());
  const bool all = options.log_level == "debug";
  const auto text = [](const Value* value) { return value == nullptr ? "" : option_text(*value); };
  for (const auto& [name, effective] : write_fields(options)) {
    const bool is_default = origins.from_file(name) == nullptr && origins.given(name) == nullptr &&
                            effective == *defaults.find(name);
    if ((is_default && !all) || !reads_option(command, name)) continue;
    std::vector<std::string> row = {name, text(defaults.find(name)), text(origins.from_file(name)),
                                    text(origins.given(name)), text(&effective)};
    if (!has_file) row.erase(row.begin() + 2);
    table.add_row(std::move(row));
  }
  return table;
}

/// Runs `look_up`; an unknown name becomes an error that says where the name stands.
template <class Function>
auto at_place(const Origins& origins, const std::string& name, Function look_up) {
  try {
    return look_up();
  } catch (const Error& error) {
    const std::string message = fmt::format("{}: {}", origins.place(name), error.what());
    if (origins.given(name) != nullptr) throw UsageError(message);
    throw Error(message);
  }
}

/// Whether a network is loaded without a model's name: a graph, or a folder that holds one.
bool loads_graph(const RunOptions& options) {
  if (!options.load) return false;
  if (options.load_type) return options.load_type->kind().holds_graph();
  // A file that is not there is named later.
  return !std::filesystem::is_regular_file(*options.load) || file_kind(*options.load).holds_graph();
}

bool is_built_in(const std::string& model) {
  try {
    find_model(model);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Refuses folders without a network, and language models that nothing is known of, before anything is done.
void check_folder(const std::filesystem::path& path) {
  const std::filesystem::path file = graph_file(path);
  if (std::filesystem::is_directory(path) && file.filename() == "config.json") read_folder_config(path);
}

/// One of the images in a folder or the folders in it; nullopt without any.
std::optional<std::string> image_in(const std::filesystem::path& folder) {
  using Entries = std::filesystem::recursive_directory_iterator;
  for (auto entry = Entries(folder); entry != Entries(); ++entry) {
    if (entry.depth() == 1) entry.disable_recursion_pending();
    if (is_image_name(entry->path())) return entry->path().lexically_relative(folder).string();
  }
  return std::nullopt;
}

/// The data set that the samples of --calibration are read as.
std::string calibration_dataset(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return "unlabelled";
  const std::vector<std::filesystem::path> arrays = arrays_in(path);
  if (arrays.empty()) return "image_folder";
  if (const std::optional<std::string> image = image_in(path)) {
    throw UsageError(
        fmt::format("--calibration: {}: got arrays ({}) beside images ({}), expected one kind; name the file "
                    "of arrays, or "
                    "a folder of images alone",
                    path.string(), arrays[0].filename().string(), *image));
  }
  return "unlabelled";
}

/// A network and samples may be named by their files.
void take_files(RunOptions& options) {
  namespace fs = std::filesystem;
  const bool is_file =
      options.model && (options.model->find('/') != std::string::npos || options.model->ends_with(".onnx") ||
                        options.model->ends_with(".mz") || options.model->ends_with(".gguf") ||
                        (!is_built_in(*options.model) && fs::exists(*options.model)));
  if (is_file) {
    if (options.load)
      throw UsageError(fmt::format("got two networks: {} and --load {}", *options.model, *options.load));
    if (!fs::exists(*options.model)) throw UsageError(fmt::format("{}: no such file", *options.model));
    options.load = std::exchange(options.model, std::nullopt);
  }
  if (options.load) check_folder(*options.load);
  if (!options.calibration) return;
  if (options.dataset || options.data_dir)
    throw UsageError("--calibration stands for a data set: got it beside --dataset or --data-dir");
  if (!fs::exists(*options.calibration))
    throw UsageError(fmt::format("--calibration: {}: no such file or folder", *options.calibration));
  options.dataset = calibration_dataset(*options.calibration);
  options.data_dir = options.calibration;
}

void check_present(const RunOptions& options, const std::string& command) {
  if (!options.model && options.load && !loads_graph(options)) {
    throw UsageError(fmt::format(
        "no model: {} holds parameters, and whose they are is not in it: name the model on the command "
        "line (`detent test resnet20 cifar10 --load {}`) or as `model` in the configuration file",
        *options.load, *options.load));
  }
  if (!options.model && !options.load) {
    throw UsageError(fmt::format(
        "no model: name one on the command line (`detent {} digits_cnn digits`), as `model` in the "
        "configuration file, or load an ONNX model or a graph (--load FILE)",
        command));
  }
  if (!options.dataset) {
    throw UsageError(fmt::format(
        "no data set: name one on the command line (`detent {} {} DATASET`, one of `detent list datasets`) "
        "or as `dataset` in the configuration file; {}",
        command, options.model ? *options.model : *options.load, own_samples_text(command)));
  }
}

void canonicalise(RunOptions& options, const Origins& origins) {
  if (options.model) {
    options.model = at_place(origins, "model", [&] { return find_model(*options.model).name; });
  }
  options.dataset = at_place(origins, "dataset", [&] { return dataset_info(*options.dataset).name; });
  if (options.task == "cls") options.task = "classification";
  at_place(origins, "task", [&] {
    const std::vector<std::string> known = {"classification", "cls"};
    if (options.task != known[0]) throw Error(unknown_name_message("task", options.task, known));
  });
  at_place(origins, "load", [&] {
    if (options.load && !std::filesystem::exists(*options.load)) fail("{}: no such file", *options.load);
  });
  at_place(origins, "project_dir", [&] {
    if (options.project_dir.empty()) fail("got \"\", expected a folder");
  });
}

std::string network_name(const std::filesystem::path& file) {
  const std::filesystem::path path = graph_file(file);
  if (file_kind(path) == graph_kind()) return read_graph(path).name();
  if (file_kind(path) == onnx_kind()) return path.stem().string();
  return std::filesystem::absolute(path).parent_path().filename().string();
}

/// The name of the run's folder: the model's and the data set's names as the user spelt them.
std::string project_name(const RunOptions& options, const std::string& date) {
  if (options.project && !options.project->empty()) return *options.project;
  const std::string model = options.model ? *options.model : network_name(*options.load);
  std::string name = fmt::format(
      "{}_{}_{}_{}", model, options.task == "cls" ? "classification" : options.task, *options.dataset, date);
  std::ranges::replace(name, '/', '-');
  return name;
}

}  // namespace

RunConfig make_run_config(const std::string& config_file, const GivenOptions& given, const std::string& date,
                          const std::string& command, const std::string& usual_dataset) {
  const bool has_file = !config_file.empty();
  const FileContent content = has_file ? read_config(config_file) : FileContent();
  const Origins origins(config_file, content, given);
  RunOptions spelt = merge(config_file, content, given);
  take_files(spelt);
  if (!spelt.dataset && spelt.load && !usual_dataset.empty()) spelt.dataset = usual_dataset;
  check_present(spelt, command);
  RunOptions options = spelt;
  canonicalise(options, origins);
  const std::filesystem::path software =
      std::filesystem::path(options.project_dir) / project_name(spelt, date) / "software";
  return {options,     content.passes, content.search,
          config_file, software,       options_table(options, origins, has_file, command)};
}

std::string own_samples_text(const std::string& command) {
  if (reads_option(command, "calibration"))
    return "`detent quantize MODEL --calibration PATH` takes your own: a folder of images, a file of inputs "
           "(.npy, .npz, .safetensors) or, of a language model, a text (.txt); so do search and transform; "
           "`detent quantize MODEL --activations float32` rounds weights alone to nearest and needs none";
  return "your own images, with their classes, are image_folder with --data-dir FOLDER, and --labels FILE "
         "where there is no folder a class";
}

void set_program_name(const std::string& name) { program_name = name; }

std::string today() { return fmt::format("{:%Y-%m-%d}", fmt::localtime(std::time(nullptr))); }

}  // namespace detent
