#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "detent/core/error.h"
#include "detent/files/gzip.h"
#include "detent/files/json.h"
#include "detent/graph/graph.h"
#include "detent/graph_files/graph_file.h"
#include "detent/graph_files/graph_layout.h"
#include "detent/graph_files/packed_tensors.h"

namespace detent {
namespace graph_layout {

std::string checksum(const std::string& graph_json,
                     const std::vector<std::pair<std::string, Tensor>>& tensors) {
  uLong crc = crc32_z(0, nullptr, 0);
  const auto add = [&](const void* data, size_t size) {
    // A null pointer would reset the sum.
    if (size > 0) crc = crc32_z(crc, static_cast<const Bytef*>(data), size);
  };
  add(graph_json.data(), graph_json.size());
  for (const auto& [name, tensor] : tensors) {
    const std::string description =
        fmt::format("\n{} {} {}\n", name, dtype_name(tensor.dtype()), shape_text(tensor.shape()));
    add(description.data(), description.size());
    add(tensor.bytes().data(), tensor.byte_size());
  }
  return fmt::format("{:08x}", crc);
}

}  // namespace graph_layout

namespace {

Table statistics_part(const OperandMap<Table>& operands,
                      const std::function<Value(const Table&)>& entry_value) {
  Table table;
  for (const auto& [operand, entry] : operands) table[operand] = entry_value(entry);
  return table;
}

List inputs_value(const Node& node) {
  List inputs;
  for (const NodeInput& input : node.inputs) {
    Table table;
    if (input.is_constant() && !input.is_absent()) table["constant"] = input.constant;
    if (!input.is_constant()) table["node"] = input.node;
    if (input.result > 0) table["result"] = static_cast<int64_t>(input.result);
    inputs.push_back(std::move(table));
  }
  return inputs;
}

Table type_value(const TensorType& type) {
  List shape;
  for (const Dimension& d : type.shape) {
    if (d.is_named() && d.size != 1) {
      shape.push_back(Table{{"name", d.symbol}, {"usual_size", d.size}});
    } else {
      shape.push_back(d.is_named() ? Value(d.symbol) : Value(d.size));
    }
  }
  return {{"dtype", std::string(dtype_name(type.dtype))}, {"shape", std::move(shape)}};
}

class Writer {
 public:
  /// `codes`: of the parameters that are to be packed, by their first byte.
  explicit Writer(const std::map<const std::byte*, Encoded>& codes) : codes_(codes) {}

  Value graph_value(const Graph& graph) {
    List nodes;
    for (const Node& node : graph.nodes()) {
      const auto type = graph.input_types().find(node.name);
      nodes.push_back(node_value(node, type == graph.input_types().end() ? nullptr : &type->second));
    }
    Table table{{"name", graph.name()}, {"nodes", std::move(nodes)}, {"quantizers", std::move(quantizers_)}};
    if (const auto& way = graph.requantization()) {
      table["requantization"] = std::string(enum_name(*way));
    }
    return table;
  }

  const std::vector<std::pair<std::string, Tensor>>& tensors() const { return tensors_; }

  /// Completes the tensors and gives the metadata for `graph`, what graph_value gave as JSON.
  std::map<std::string, std::string> finish(const std::string& graph) {
    std::map<std::string, std::string> metadata = packed_;
    metadata["format"] = graph_layout::kFormat;
    metadata["version"] = std::to_string(graph_layout::kVersion);
    if (packed_.empty()) {
      metadata["graph"] = graph;
      return metadata;
    }
    const std::string compressed = gzip_text(graph);
    Tensor bytes(DType::kUInt8, {std::ssize(compressed)});
    std::ranges::copy(std::as_bytes(std::span(compressed)), bytes.bytes().begin());
    tensors_.emplace_back(graph_layout::kGraphTensor, std::move(bytes));
    return metadata;
  }

 private:
  /// Lists that the streams of the packed parameter hold, and long ones, are the names of tensors.
  Value key_value(const Node& node, const std::string& operand, const std::string& key, const Value& value) {
    std::optional<Tensor> numbers = tensor_of_list(value, 2);
    if (!numbers) return value;
    std::string name = stream_with(node, operand, value);
    if (name.empty() && static_cast<size_t>(numbers->numel()) <= graph_layout::kMostNumbersAsText)
      return value;
    if (name.empty()) {
      name = free_name(fmt::format("formats.{}.{}.{}", node.name, operand, key));
      add(name, std::move(*numbers));
    }
    return Table{{graph_layout::kTensorKey, name}};
  }

  /// The tensor after the codes of this parameter that holds just that list; "" where none does.
  std::string stream_with(const Node& node, const std::string& operand, const Value& list) const {
    const Parameter* parameter = node.find_parameter(operand);
    const auto codes = parameter == nullptr ? codes_.end() : codes_.find(parameter->tensor.bytes().data());
    if (codes == codes_.end()) return "";
    for (const EncodedStream& stream : codes->second.streams) {
      const bool is_list = stream.data.rank() == 1 && stream.data.dtype() != DType::kUInt8;
      if (is_list && list_of_tensor(stream.data) == list) return stored_.at(parameter) + "." + stream.name;
    }
    return "";
  }

  Table node_value(const Node& node, const TensorType* input_type) {
    Table table{{"name", node.name}, {"op", node.op}, {"mase_type", enum_name(node.mase_type)}};
    if (!node.target.empty()) table["target"] = node.target;
    if (input_type != nullptr) table["input_type"] = type_value(*input_type);
    table["inputs"] = inputs_value(node);
    table["attributes"] = node.attributes;
    List parameters;
    for (const auto& [name, parameter] : node.parameters)
      parameters.push_back(parameter_value(node, name, name, *parameter));
    table["parameters"] = std::move(parameters);
    for (const auto& [operand, quantizer] : node.quantization)
      table.table("quantization")[operand] = add_quantizer(node, operand, *quantizer);
    if (!node.statistics.empty()) table["statistics"] = statistics_value(node);
    if (!node.source_names.empty())
      table["source_names"] = List(node.source_names.begin(), node.source_names.end());
    if (node.body != nullptr) table["body"] = body_value(node);
    return table;
  }

  /// Names of its tensors begin with that of the loop; its quantizers are its own.
  Value body_value(const Node& loop) {
    const std::string prefix = std::exchange(prefix_, prefix_ + loop.name + ".");
    const List quantizers = std::exchange(quantizers_, {});
    const auto places = std::exchange(quantizer_places_, {});
    Value value = graph_value(*loop.body);
    prefix_ = prefix;
    quantizers_ = quantizers;
    quantizer_places_ = places;
    return value;
  }

  /// `name_at_node`: what it is called among the parameters of the node.
  Value parameter_value(const Node& node, const std::string& name, const std::string& name_at_node,
                        const Parameter& parameter) {
    return Table{{"name", name},
                 {"tensor", add_tensor(node, name_at_node, parameter)},
                 {"trainable", parameter.trainable}};
  }

  Table statistics_value(const Node& node) {
    const std::string name = "statistics." + node.name;
    const auto entry = [&](const Table& statistics) { return statistics_value(statistics, name); };
    return {{"args", statistics_part(node.statistics.args, entry)},
            {"results", statistics_part(node.statistics.results, entry)}};
  }

  /// Long lists of numbers are tensors of their own.
  Value statistics_value(const Value& value, const std::string& name) {
    if (const Table* table = value.get_if<Table>()) {
      if (table->contains(graph_layout::kTensorKey)) fail("the key {} is reserved", graph_layout::kTensorKey);
      Table result;
      for (const auto& [key, entry] : *table)
        result[key] = statistics_value(entry, fmt::format("{}.{}", name, key));
      return result;
    }
    std::optional<Tensor> tensor = tensor_of_list(value, graph_layout::kMostNumbersAsText + 1);
    if (!tensor) return value;
    add(free_name(name), std::move(*tensor));
    return Table{{graph_layout::kTensorKey, tensors_.back().first}};
  }

  std::string free_name(std::string name) const {
    while (names_.contains(name)) name += "+";
    return name;
  }

  /// Place in the list of quantizers; operands that share one have the same.
  int64_t add_quantizer(const Node& node, const std::string& operand, const Quantizer& quantizer) {
    const auto [place, is_new] = quantizer_places_.emplace(&quantizer, std::ssize(quantizers_));
    if (!is_new) return place->second;
    Table keys = quant_spec_keys(quantizer.spec);
    for (auto& [key, value] : keys) value = key_value(node, operand, key, value);
    Table table{{"format", std::string(format_name(quantizer.spec.format))}, {"keys", std::move(keys)}};
    List parameters;
    for (const auto& [name, parameter] : quantizer.parameters)
      parameters.push_back(parameter_value(node, name, owned_parameter_name(operand, name), *parameter));
    if (!parameters.empty()) table["parameters"] = std::move(parameters);
    if (quantizer.rounding != Rounding::kNearest)
      table["rounding"] = field_detail::to_value(quantizer.rounding);
    if (quantizer.norm_folding != NormFolding::kNo)
      table["fold_batch_norm"] = field_detail::to_value(quantizer.norm_folding);
    if (quantizer.observer) table["observer"] = write_fields(*quantizer.observer);
    quantizers_.push_back(std::move(table));
    return place->second;
  }

  /// The name of the parameter's tensor in the file: its state_dict key where that is free. A parameter that
  /// several nodes share is stored once.
  std::string add_tensor(const Node& node, const std::string& name, const Parameter& parameter) {
    const auto stored = stored_.find(&parameter);
    if (stored != stored_.end()) return stored->second;
    std::string key = prefix_ + node.parameter_key(name);
    while (names_.contains(key)) key += "." + node.name;
    const auto codes = codes_.find(parameter.tensor.bytes().data());
    if (codes == codes_.end()) {
      add(key, parameter.tensor);
    } else {
      names_.insert(key);
      add_packed(key, codes->second, tensors_, packed_);
    }
    return stored_[&parameter] = std::move(key);
  }

  void add(const std::string& name, Tensor tensor) {
    names_.insert(name);
    tensors_.emplace_back(name, std::move(tensor));
  }

  const std::map<const std::byte*, Encoded>& codes_;
  std::vector<std::pair<std::string, Tensor>> tensors_;
  std::unordered_set<std::string> names_;  // of the tensors, and of what packed ones stand for
  std::unordered_map<const Parameter*, std::string> stored_;
  std::string prefix_;  // of the names of tensors
  List quantizers_;
  std::unordered_map<const Quantizer*, int64_t> quantizer_places_;
  std::map<std::string, std::string> packed_;  // what the metadata say of them
};

void write(const std::filesystem::path& path, const Graph& graph,
           const std::map<const std::byte*, Encoded>& codes) {
  try {
    verify(graph);
  } catch (const Error& error) {
    fail("cannot write {}: {}", path.string(), error.what());
  }
  Writer writer(codes);
  const std::string text =
      json_text(writer.graph_value(graph), JsonLayout::kOneLine, InvalidText::kIsRefused);
  const std::map<std::string, std::string> metadata = writer.finish(text);
  write_safetensors(path, writer.tensors(), metadata);
}

}  // namespace

void write_graph(const std::filesystem::path& path, const Graph& graph) { write(path, graph, {}); }

std::vector<std::string> write_packed_graph(const std::filesystem::path& path, const Graph& graph) {
  PackedWeights packed = pack_weights(graph);
  write(path, packed.graph, packed.codes);
  return std::move(packed.left);
}

}  // namespace detent
