#include "detent/workflows/network_data.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/datasets/datasets.h"
#include "detent/datasets/whole_samples.h"
#include "detent/evaluation/metrics.h"
#include "detent/graph/node_names.h"
#include "detent/graph/operators.h"
#include "detent/graph/value_sizes.h"

namespace detent {
namespace {

/// "float32 [1, 3, 224, 224], int64 [1, 16]": of a batch of one sample.
std::string inputs_text(std::span<const SampleInput> inputs, const std::vector<Shape>& shapes) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    parts.push_back(fmt::format("{} {}", dtype_name(inputs[i].dtype), shape_text(shapes[i])));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// Input shapes for one sample of that size.
std::vector<Shape> shapes_of_one(const Dataset& dataset, size_t size) {
  int64_t sample = 0;
  while (dataset.size_of_sample(sample) != size) ++sample;
  std::vector<Shape> shapes;
  for (const Tensor& input : dataset.batch(std::array{sample}).inputs) shapes.push_back(input.shape());
  return shapes;
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
    const bool is_batch = !shape.empty() && shape[0] == 1 && !type.shape.empty() && !type.shape[0].is_named();
    if (is_batch) shape[0] = type.shape[0].size;
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

/// Runs of parts of the network, and estimates of cost, take the sizes of the first samples.
Graph with_sizes_of_samples(const Graph& graph, const std::vector<NamedSizes>& sizes) {
  if (sizes.front().empty()) return graph;
  for (const auto& [name, size] : sizes.front())
    log_info("{} = {}, as the samples have it", name, range_text(name, sizes));
  return with_usual_sizes(graph, sizes.front());
}

/// Rows of a table that the node looks up by its input `index`; of a constant operand no more than its
/// smallest dimension, whichever it is looked up along. 0: it looks none up.
int64_t table_rows(const Graph& graph, const Node& node, size_t index) {
  const auto& indices = find_operator(node.op).index_operands;
  if (std::ranges::find(indices, fmt::format("data_in_{}", index)) == indices.end()) return 0;
  const NodeInput& first = node.inputs.front();
  const bool is_constant = index > 0 && !first.is_constant() && graph.find(first.node) != nullptr;
  const Parameter* table = index == 0    ? node.find_parameter("weight")
                           : is_constant ? graph.node(first.node).find_parameter("value")
                                         : nullptr;
  if (table == nullptr || table->tensor.shape().empty()) return 0;
  return index == 0 ? table->tensor.dim(0) : std::ranges::min(table->tensor.shape());
}

/// Rows of the smallest table that an input of the network is looked up in; 0 where none is.
int64_t rows_looked_up(const Graph& graph, const std::string& input) {
  int64_t least = 0;
  for (const Node& node : graph.nodes()) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].is_constant() || node.inputs[i].node != input) continue;
      const int64_t rows = table_rows(graph, node, i);
      if (rows > 0 && (least == 0 || rows < least)) least = rows;
    }
  }
  return least;
}

}  // namespace

std::vector<SampleInput> sample_inputs(const Graph& graph) {
  std::vector<SampleInput> inputs;
  for (const std::string& node : graph.input_names()) {
    const TensorType& type = graph.input_types().find(node)->second;
    Shape shape;
    for (const Dimension& size : type.shape) shape.push_back(size.is_named() ? -1 : size.size);
    const bool has_own_size =
        !fixed_samples(graph) && !shape.empty() && shape[0] < 0 && type.shape[0].symbol != kBatchName;
    if (has_own_size) shape[0] = kOwnFirstSize;
    inputs.push_back({source_name(graph, NodeInput::of(node)), type.dtype, std::move(shape)});
    SampleInput& input = inputs.back();
    for (const Dimension& size : type.shape) input.usual.push_back(size.size);
    input.below = rows_looked_up(graph, node);
  }
  return inputs;
}

void expect_inputs(const Graph& graph, const std::string& file) {
  if (graph.input_names().empty())
    fail("{}: graph \"{}\" has no inputs: no sample changes its outputs", file, graph.name());
}

std::unique_ptr<Dataset> random_samples(const Graph& graph) {
  DatasetOptions options;
  options.inputs = sample_inputs(graph);
  return make_dataset(kRandomDataset, Split::kTrain, options);
}

std::string classes_text(const Dataset& dataset) {
  return fmt::format(
      "the data set ({}) has {} classes; where an image_folder has only some of the network's, "
      "name all of them with --classes FILE",
      dataset.source(), dataset.class_count());
}

Graph fitted_to_data(const Graph& graph, const Dataset& dataset, const std::string& file,
                     bool may_lack_classes) {
  expect_inputs(graph, file);
  std::vector<NamedSizes> sizes;
  for (size_t i = 0; i < dataset.size_count(); ++i) {
    const std::vector<Shape> shapes = shapes_of_one(dataset, i);
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
  const Shape output = values.at(value_name(graph.nodes().back().inputs[class_output(fitted)])).shape;
  const int64_t classes = output.size() == 2 && output[0] == 1 ? output[1] : 0;
  const bool fits = may_lack_classes ? classes >= dataset.class_count() : classes == dataset.class_count();
  if (!fits) {
    fail("{}: graph \"{}\" gives outputs of shape {}, {}", file, graph.name(), shape_text(output),
         classes_text(dataset));
  }
  return fitted;
}

}  // namespace detent
