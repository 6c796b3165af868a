#include "detent/cli/network/commands.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "detent/cli/results.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/core/name_pattern.h"
#include "detent/core/value.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/files/output_folder.h"
#include "detent/graph/operators.h"
#include "detent/inference/integer_executor.h"
#include "detent/inference/node_form.h"
#include "detent/inference/plan.h"
#include "detent/workflows/network_values.h"

namespace detent {
namespace {

constexpr const char* kDumpIndex = "index.json";

/// Throws Error where the folder is none that a dump may be written to: it must be new, empty, or, with
/// `overwrite`, hold an earlier dump.
void check_dump_folder(const std::filesystem::path& folder, bool overwrite) {
  namespace fs = std::filesystem;
  if (!fs::exists(folder)) return;
  if (!fs::is_directory(folder)) fail("--dump: {} is a file, expected a folder", folder.string());
  if (fs::is_empty(folder)) return;
  const fs::path index = folder / kDumpIndex;
  if (!fs::exists(index)) {
    fail("--dump: {} holds other files than a dump: expected a new or an empty folder", folder.string());
  }
  if (!overwrite) {
    fail("--dump: {} holds a dump already: --overwrite replaces it, or name another folder", folder.string());
  }
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  const Value content = parse_json(read_file(index, kMostBytes, ReadAs::kOwnResult), index.string());
  const Table* table = content.get_if<Table>();
  if (table == nullptr || !table->contains("logits")) fail("{}: not the index of a dump", index.string());
}

/// One array of the dump, written batch by batch.
struct Array {
  std::string file;
  DType dtype = DType::kFloat32;
  Shape shape;  // of all samples
  std::unique_ptr<NpyWriter> writer = nullptr;

  void open(const std::filesystem::path& path) { writer = std::make_unique<NpyWriter>(path, dtype, shape); }
  Table entry() const {
    return {{"file", file}, {"dtype", std::string(dtype_name(dtype))}, {"shape", Value(shape)}};
  }
};

/// Array written for a node.
struct NodeArray {
  const Node* node;
  Array array;
  std::optional<CodeType> type = {};  // integers of this type
  bool sums = false;                  // integers without a type: sums of a layer whose result is float
  std::vector<float> scale = {};      // of the sums
};

std::vector<const Node*> chosen_nodes(const Graph& graph, const std::vector<std::string>& patterns) {
  const auto shapes = infer_shapes(graph);
  std::vector<const Node*> known;
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) {
    const Operand& result = shapes.at(node.name);
    const OperatorRole role = role_of(node);
    if (role == OperatorRole::kOutput || role == OperatorRole::kConstant || !result.is_tensor()) continue;
    if (result.shape.empty() || result.shape[0] != 1) continue;  // no batch
    known.push_back(&node);
    names.push_back(node.name);
  }
  std::vector<const Node*> chosen;
  for (const std::string& text : patterns) {
    const NamePattern pattern(text, "--dump-nodes");
    const auto matches = [&](const Node* node) { return pattern.matches(node->name); };
    if (std::ranges::none_of(known, matches)) {
      fail("--dump-nodes: {}", unmatched_pattern_message(text, names));
    }
    for (const Node* node : known) {
      if (matches(node) && std::ranges::find(chosen, node) == chosen.end()) chosen.push_back(node);
    }
  }
  return chosen;
}

bool gives_sums(const Node& node, const Graph& graph) {
  if (!graph.requantization() || !is_weighted_sum(node)) return false;
  const std::optional<NodeForm> form = node_form(node, *graph.requantization());
  const auto* sums = form ? std::get_if<SumForm>(&*form) : nullptr;
  return sums != nullptr && !sums->output;
}

class Dump {
 public:
  Dump(const RunOptions& options, const Graph& graph, const Dataset& dataset)
      : options_(options), graph_(graph), dataset_(dataset), folder_(*options.dump.folder) {
    samples_ = std::min(options.dump.samples, dataset.size());
    const bool integers = options.dump.as == DumpAs::kIntegers;
    const bool executed = options.engine != Engine::kSimulation;
    const auto shapes = infer_shapes(graph, samples_);
    const auto types = result_types(graph);
    for (const Node* node : chosen_nodes(graph, options.dump.nodes)) {
      Array array{fmt::format("nodes/{}.npy", node->name), DType::kFloat32, shapes.at(node->name).shape};
      NodeArray& entry = nodes_.emplace_back(NodeArray{node, std::move(array)});
      const auto type = types.find(node->name);
      if (integers && type != types.end()) {
        entry.type = type->second;
        entry.array.dtype = code_dtype(type->second);
      } else if (integers && executed && gives_sums(*node, graph)) {
        entry.sums = true;
        entry.array.dtype = DType::kInt32;
      }
    }
    const bool any = std::ranges::any_of(
        nodes_, [](const NodeArray& entry) { return entry.type.has_value() || entry.sums; });
    if (integers && !any) {
      fail("--dump-as integers: {}", nodes_.empty()
                                         ? "no node is chosen: --dump-nodes does"
                                         : "the chosen nodes give float values: none computes in integers");
    }
    labels_.shape = {samples_};
    predictions_.shape = {samples_};
    logits_.shape = shapes.at(graph.nodes().back().name).shape;
  }

  void write(const CommandResults& results) {
    const auto warn = [](const std::string& text) { log_warning("{}", text); };
    const FolderLock lock(folder_, "detent test --dump", warn);
    check_dump_folder(folder_, options_.overwrite);
    OutputFolder outputs(folder_, options_.overwrite, warn);
    for (Array* array : arrays()) array->open(outputs.staged(folder_ / array->file));
    std::optional<IntegerProgram> integers;
    std::unique_ptr<const Program> simulation;
    if (options_.engine != Engine::kSimulation) {
      integers.emplace(graph_);
    } else {
      simulation = FastExecutor().compile(graph_);
    }
    const int64_t batch_size = options_.training.batch_size;
    for (int64_t begin = 0; begin < samples_; begin += batch_size) {
      std::vector<int64_t> indices;
      for (int64_t i = begin; i < std::min(begin + batch_size, samples_); ++i) indices.push_back(i);
      const Batch batch = dataset_.batch(indices);
      add_predictions(integers ? run_integers(*integers, batch.inputs)
                               : run_simulation(*simulation, batch.inputs));
      labels_.writer->append(batch.labels);
    }
    for (Array* array : arrays()) array->writer->commit();
    write_json(outputs.staged(folder_ / kDumpIndex), index());
    outputs.commit();
    results.say(fmt::format("dump: {} samples, logits and {} nodes in {}\n", samples_, nodes_.size(),
                            folder_.string()));
  }

 private:
  std::vector<Array*> arrays() {
    std::vector<Array*> all = {&labels_, &predictions_, &logits_};
    for (NodeArray& entry : nodes_) all.push_back(&entry.array);
    return all;
  }

  NodeArray* find(const Node& node) {
    const auto found = std::ranges::find(nodes_, node.name, [](const NodeArray& e) { return e.node->name; });
    return found == nodes_.end() ? nullptr : &*found;
  }

  Tensor run_simulation(const Program& program, std::span<const Tensor> inputs) {
    const auto add_values = [&](const Node& node, std::string_view operand, const Tensor& value) {
      NodeArray* entry = operand == "data_out_0" ? find(node) : nullptr;
      if (entry != nullptr) add(*entry, entry->type ? codes_of(value, *entry->type) : value);
    };
    return program.run(inputs, {add_values}).front();
  }

  Tensor run_integers(const IntegerProgram& program, std::span<const Tensor> inputs) {
    const auto add_values = [&](const Node& node, std::string_view operand, const Tensor& value) {
      NodeArray* entry = operand == "data_out_0" ? find(node) : nullptr;
      if (entry != nullptr && !entry->type && !entry->sums) add(*entry, value);
    };
    const auto add_integers = [&](const Node& node, const IntegerResult& result) {
      NodeArray* entry = find(node);
      if (entry == nullptr || !(entry->type || entry->sums)) return;
      DETENT_CHECK(result.type == entry->type, "node {} has codes of another type", node.name);
      if (result.sums != nullptr) entry->scale = result.sums->scale;
      add(*entry, result.integers);
    };
    return program.run_observed(inputs, {add_values}, add_integers).front();
  }

  static void add(NodeArray& entry, const Tensor& elements) {
    const bool integers = elements.dtype() == DType::kInt32;
    entry.array.writer->append(integers ? as_dtype(elements, entry.array.dtype) : elements);
  }

  void add_predictions(const Tensor& output) {
    logits_.writer->append(output);
    const auto classes = static_cast<size_t>(output.dim(-1));
    Tensor predictions(DType::kInt64, {output.dim(0)});
    for (size_t i = 0; i < predictions.values<int64_t>().size(); ++i) {
      const auto row = output.values<float>().subspan(i * classes, classes);
      predictions.values<int64_t>()[i] = std::ranges::max_element(row) - row.begin();
    }
    predictions_.writer->append(predictions);
  }

  Table index() const {
    List nodes;
    for (const NodeArray& entry : nodes_) {
      Table item{{"node", entry.node->name}, {"op", entry.node->op}};
      for (const auto& [key, value] : entry.array.entry()) item[key] = value;
      if (entry.type) {
        item["scale"] = static_cast<double>(entry.type->scale);
        item["zero_point"] = entry.type->zero_point;
        item["low"] = entry.type->low;
        item["high"] = entry.type->high;
      }
      if (entry.sums) {
        item["scale"] = List(entry.scale.begin(), entry.scale.end());
        item["zero_point"] = 0;
        item["axis"] = static_cast<int64_t>(channel_axis(*entry.node, entry.array.shape.size()));
      }
      nodes.emplace_back(std::move(item));
    }
    constexpr auto engine_names = enum_names(Engine{});
    return {{"graph", graph_.name()},
            {"engine", engine_names[static_cast<size_t>(options_.engine)]},
            {"dataset", dataset_.source()},
            {"split", "test"},
            {"samples", samples_},
            {"labels", labels_.entry()},
            {"predictions", predictions_.entry()},
            {"logits", logits_.entry()},
            {"nodes", std::move(nodes)}};
  }

  const RunOptions& options_;
  const Graph& graph_;
  const Dataset& dataset_;
  std::filesystem::path folder_;
  int64_t samples_ = 0;
  Array labels_{"labels.npy", DType::kInt64, {}};
  Array predictions_{"predictions.npy", DType::kInt64, {}};
  Array logits_{"logits.npy", DType::kFloat32, {}};
  std::vector<NodeArray> nodes_;
};

}  // namespace

void write_dump(const RunOptions& options, const Graph& graph, const Dataset& dataset,
                const CommandResults& results) {
  Dump(options, graph, dataset).write(results);
}

}  // namespace detent
