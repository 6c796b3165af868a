#include "detent/python/network.h"

#include "detent/datasets/collected_samples.h"
#include "detent/evaluation/metrics.h"
#include "detent/graph/node_names.h"
#include "detent/graph/operators.h"
#include "detent/graph/value_sizes.h"

namespace detent::python {

std::vector<SampleInput> Network::sample_inputs() const {
  std::vector<SampleInput> inputs;
  for (const std::string& node : graph_.input_names())
    inputs.push_back(
        {source_name(graph_, NodeInput::of(node)), graph_.input_types().find(node)->second.dtype});
  return inputs;
}

std::vector<int64_t> Network::sample_rows() const {
  std::vector<int64_t> rows;
  if (!fixed_samples(graph_)) {
    for (const std::string& node : graph_.input_names()) {
      const auto& shape = graph_.input_types().find(node)->second.shape;
      const bool is_batch = shape.empty() || !shape.front().is_named() || shape.front().symbol == kBatchName;
      rows.push_back(is_batch ? 1 : CollectedSamples::kOwnRows);
    }
    return rows;
  }
  if (fixed_samples(graph_) != 1) return {};
  for (const std::string& node : graph_.input_names()) {
    const auto& shape = graph_.input_types().find(node)->second.shape;
    const int64_t first = shape.empty() ? 0 : shape.front().size;
    rows.push_back(!shape.empty() && shape.front().is_named() ? -1 : first);
  }
  return rows;
}

std::vector<NamedType> Network::inputs() const {
  std::vector<NamedType> inputs;
  for (const std::string& node : graph_.input_names()) {
    const TensorType& type = graph_.input_types().find(node)->second;
    NamedType input{source_name(graph_, NodeInput::of(node)), std::string(dtype_name(type.dtype)), {}};
    for (const Dimension& size : type.shape)
      input.shape.push_back(size.is_named() ? size.symbol : std::to_string(size.size));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::vector<std::string> Network::output_names() const {
  std::vector<std::string> names;
  const Node& last = graph_.nodes().back();
  for (const NodeInput& input : last.inputs)
    names.push_back(source_name_or(last, names.size(), source_name(graph_, input)));
  return names;
}

int64_t Network::class_count() const {
  const std::string output = value_name(graph_.nodes().back().inputs.at(class_output(graph_)));
  const Shape shape = infer_shapes(graph_).at(output).shape;
  if (shape.size() != 2 || shape[0] != 1) return 0;  // such as boxes, of any number of objects
  const bool is_open = infer_shapes(graph_, other_sizes(graph_)).at(output).shape != shape;
  return is_open ? 0 : shape[1];
}

std::shared_ptr<const FastProgram> Network::program() const {
  const std::lock_guard lock(mutex_);
  if (program_ == nullptr) program_ = std::make_shared<const FastProgram>(graph_);
  return program_;
}

}  // namespace detent::python
