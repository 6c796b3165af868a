#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <map>

#include "detent/core/error.h"
#include "detent/graph/graph.h"
#include "detent/io/graph_file.h"
#include "detent/io/graph_layout.h"
#include "detent/io/gzip.h"
#include "detent/io/json.h"
#include "detent/io/number_lists.h"
#include "detent/io/packed_tensors.h"
#include "detent/io/weight_packing.h"

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

Value operand_info_value(const OperandInfo& info) {
  Table table{{"type", info.type}, {"precision", info.precision}, {"size", Value(info.size)}};
  if (info.from) table["from"] = *info.from;
  if (!info.value.is_na()) table["value"] = info.value;
  return table;
}

template <class Entry, class Function>
Value operands_value(const OperandMap<Entry>& operands, Function entry_value) {
  Table table;
  for (const auto& [operand, entry] : operands) table[operand] = entry_value(entry);
  return table;
}

template <class Part, class Function>
Value part_value(const Part& part, Function entry_value) {
  return Table{{"args", operands_value(part.args, entry_value)},
               {"results", operands_value(part.results, entry_value)}};
}

List inputs_value(const Node& node) {
  List inputs;
  for (const NodeInput& input : node.inputs) {
    inputs.push_back(input.is_constant() ? Table{{"constant", input.constant}} : Table{{"node", input.node}});
  }
  return inputs;
}

class Writer {
 public:
  /// `codes`: of the parameters that are to be packed, by their first byte.
  explicit Writer(const std::map<const std::byte*, Encoded>& codes) : codes_(codes) {}

  Value graph_value(const Graph& graph) {
    List nodes;
    for (const Node& node : graph.nodes()) {
      const auto shape = graph.input_shapes().find(node.name);
      nodes.push_back(node_value(node, shape == graph.input_shapes().end() ? nullptr : &shape->second));
    }
    Table table{{"name", graph.name()}, {"nodes", std::move(nodes)}};
    if (const auto& way = graph.requantization()) {
      table["requantization"] = std::string(enum_names(*way)[static_cast<size_t>(*way)]);
    }
    return table;
  }

  const std::vector<std::pair<std::string, Tensor>>& tensors() const { return tensors_; }

  /// Completes the tensors and gives the metadata for `graph`, what graph_value gave as JSON.
  std::map<std::string, std::string> finish(const std::string& graph) {
    std::map<std::string, std::string> metadata = packed_;
    metadata["format"] = graph_layout::kFormat;
    if (packed_.empty() && !has_lists_in_formats_) {
      metadata["version"] = std::to_string(graph_layout::kVersionOfFloats);
      metadata["graph"] = graph;
      return metadata;
    }
    metadata["version"] = std::to_string(graph_layout::kVersion);
    const std::string compressed = gzip_text(graph);
    Tensor bytes(DType::kUInt8, {std::ssize(compressed)});
    std::ranges::copy(std::as_bytes(std::span(compressed)), bytes.bytes().begin());
    tensors_.emplace_back(graph_layout::kGraphTensor, std::move(bytes));
    return metadata;
  }

 private:
  Table quantization_value(const Node& node) {
    Table table;
    for (const auto& [operand, spec] : node.quantization) {
      Table keys = quant_spec_keys(spec);
      for (auto& [key, value] : keys) value = key_value(node, operand, key, value);
      table[operand] = Table{{"format", std::string(format_name(spec.format))}, {"keys", std::move(keys)}};
    }
    return table;
  }

  /// Lists that the streams of the packed parameter hold, and long ones, are the names of tensors.
  Value key_value(const Node& node, const std::string& operand, const std::string& key, const Value& value) {
    std::optional<Tensor> numbers = tensor_of_list(value, 2);
    if (!numbers) return value;
    std::string name = stream_with(node, operand, value);
    if (name.empty() && static_cast<size_t>(numbers->numel()) <= graph_layout::kMostNumbersAsText)
      return value;
    if (name.empty()) {
      name = free_name(fmt::format("formats.{}.{}.{}", node.name, operand, key));
      tensors_.emplace_back(name, std::move(*numbers));
    }
    has_lists_in_formats_ = true;
    return Table{{graph_layout::kTensorKey, name}};
  }

  /// The tensor behind the codes of this parameter that holds just that list; "" where none does.
  std::string stream_with(const Node& node, const std::string& operand, const Value& list) const {
    const Parameter* parameter = node.find_parameter(operand);
    const auto codes = parameter == nullptr ? codes_.end() : codes_.find(parameter->tensor.bytes().data());
    if (codes == codes_.end()) return "";
    for (const EncodedStream& stream : codes->second.streams) {
      const bool is_list = stream.data.rank() == 1 && stream.data.dtype() != DType::kUInt8;
      if (is_list && list_of_tensor(stream.data) == list)
        return names_of_codes_.at(codes->first) + "." + stream.name;
    }
    return "";
  }

  Table node_value(const Node& node, const Shape* input_shape) {
    Table table{
        {"name", node.name}, {"op", node.op}, {"mase_type", std::string(mase_type_name(node.mase_type))}};
    if (!node.target.empty()) table["target"] = node.target;
    if (input_shape != nullptr) table["input_shape"] = Value(*input_shape);
    table["inputs"] = inputs_value(node);
    table["attributes"] = node.attributes;
    List parameters;
    for (const auto& [name, parameter] : node.parameters) {
      parameters.push_back(Table{{"name", name},
                                 {"tensor", add_tensor(node, name, parameter.tensor)},
                                 {"trainable", parameter.trainable}});
    }
    table["parameters"] = std::move(parameters);
    table["quantization"] = quantization_value(node);
    table["metadata"] = metadata_value(node);
    return table;
  }

  Value metadata_value(const Node& node) {
    Table table;
    const Metadata& metadata = node.metadata;
    if (metadata.common) table["common"] = part_value(*metadata.common, operand_info_value);
    if (metadata.hardware) table["hardware"] = Table();
    if (metadata.software) {
      const std::string name = "statistics." + node.name;
      table["software"] = part_value(
          *metadata.software, [&](const Table& statistics) { return statistics_value(statistics, name); });
    }
    return table;
  }

  /// Long lists of numbers are tensors of their own.
  Value statistics_value(const Value& value, const std::string& name) {
    if (const Table* table = value.get_if<Table>()) {
      if (table->contains(graph_layout::kTensorKey)) fail("the key {} is reserved", graph_layout::kTensorKey);
      Table result;
      for (const auto& [key, entry] : *table) result[key] = statistics_value(entry, name + "." + key);
      return result;
    }
    std::optional<Tensor> tensor = tensor_of_list(value, graph_layout::kMostNumbersAsText + 1);
    if (!tensor) return value;
    tensors_.emplace_back(free_name(name), std::move(*tensor));
    return Table{{graph_layout::kTensorKey, tensors_.back().first}};
  }

  std::string free_name(std::string name) const {
    while (std::ranges::find(tensors_, name, &std::pair<std::string, Tensor>::first) != tensors_.end())
      name += "+";
    return name;
  }

  /// The name of the parameter's tensor in the file: its state_dict key where that is free or its own.
  std::string add_tensor(const Node& node, const std::string& parameter, const Tensor& tensor) {
    const auto same_memory = [&](const Tensor& other) {
      return other.dtype() == tensor.dtype() && other.shape() == tensor.shape() &&
             other.bytes().data() == tensor.bytes().data();
    };
    for (std::string name = node.parameter_key(parameter);; name += "." + node.name) {
      const auto [taken, is_free] = parameters_.try_emplace(name, tensor);
      if (!is_free && same_memory(taken->second)) return name;
      if (!is_free) continue;
      const auto codes = codes_.find(tensor.bytes().data());
      if (codes == codes_.end()) {
        tensors_.emplace_back(name, tensor);
      } else {
        add_packed(name, codes->second, tensors_, packed_);
        names_of_codes_[codes->first] = name;
      }
      return name;
    }
  }

  const std::map<const std::byte*, Encoded>& codes_;
  std::map<const std::byte*, std::string> names_of_codes_;
  std::map<std::string, Tensor> parameters_;  // by their names in the file
  std::vector<std::pair<std::string, Tensor>> tensors_;
  std::map<std::string, std::string> packed_;  // what the metadata say of them
  bool has_lists_in_formats_ = false;
};

void write(const std::filesystem::path& path, const Graph& graph,
           const std::map<const std::byte*, Encoded>& codes) {
  try {
    verify(graph);
  } catch (const Error& error) {
    fail("cannot write {}: {}", path.string(), error.what());
  }
  Writer writer(codes);
  const std::string text = json_text(writer.graph_value(graph), JsonLayout::kOneLine);
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
