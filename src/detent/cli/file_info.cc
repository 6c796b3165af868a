#include "detent/cli/file_info.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/io/file.h"
#include "detent/io/graph_file.h"
#include "detent/io/npy.h"
#include "detent/io/npz.h"
#include "detent/io/packed_tensors.h"
#include "detent/io/safetensors.h"
#include "detent/io/torch_checkpoint.h"
#include "detent/onnx/import_onnx.h"
#include "detent/passes/analysis/network_cost.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

/// Packed tensors by their own names, with their formats for dtypes.
std::vector<TensorSummary> packed_tensors(const SafetensorsFile& file, const fs::path& path) {
  std::vector<TensorSummary> result;
  for (const StoredTensor& tensor : unpack_tensors(file, path.string())) {
    if (const auto* plain = std::get_if<Tensor>(&tensor.content)) {
      result.push_back(
          {tensor.name, std::string(dtype_name(plain->dtype())), plain->shape(), plain->byte_size()});
      continue;
    }
    const Encoded& encoded = std::get<Encoded>(tensor.content);
    uint64_t bytes = 0;
    for (const EncodedStream& stream : encoded.streams) bytes += stream.data.byte_size();
    result.push_back({tensor.name, quant_spec_text(encoded.spec), encoded.shape, bytes});
  }
  return result;
}

std::string listed(const std::map<std::string, int64_t>& counts) {
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) parts.push_back(fmt::format("{} x {}", count, name));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

FileInfo graph_info(const fs::path& path) {
  const Graph graph = read_graph(path);
  FileInfo info{"graph",
                {},
                {{"name", graph.name()}, {"parameters", graph.parameter_count()}},
                {graph.nodes().begin(), graph.nodes().end()}};
  const SafetensorsFile file = read_safetensors(path, TensorCheck::kLater);
  info.tensors = packed_tensors(file, path);
  const int64_t packed = std::ssize(file.metadata) - std::ssize(plain_metadata(file));
  if (packed > 0) info.facts["packed parameters"] = packed;
  return info;
}

FileInfo onnx_info(const fs::path& path) {
  const Graph graph = import_onnx(path);
  FileInfo info{"ONNX model", {}, {{"name", graph.name()}}, {graph.nodes().begin(), graph.nodes().end()}};
  const ValueTypes values = infer_shapes(graph);
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::map<std::string, int64_t> operators;
  for (const Node& node : graph.nodes()) {
    const OperatorRole role = role_of(node);
    if (role == OperatorRole::kInput) {
      const TensorType& type = graph.input_types().find(node.name)->second;
      inputs.push_back(fmt::format("{} {}", node.source_names.at(0), tensor_type_text(type)));
    } else if (role == OperatorRole::kOutput) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const Operand& output = values.at(value_name(node.inputs[i]));
        outputs.push_back(fmt::format("{} {} {}", node.source_names.at(i), dtype_name(output.dtype),
                                      shape_text(output.shape)));
      }
    } else {
      ++operators[node.op];
    }
    for (const auto& [name, parameter] : node.parameters) {
      const Tensor& tensor = parameter->tensor;
      info.tensors.push_back({node.parameter_key(name), std::string(dtype_name(tensor.dtype())),
                              tensor.shape(), tensor.byte_size()});
    }
  }
  info.facts["inputs"] = fmt::format("{}", fmt::join(inputs, ", "));
  info.facts["outputs"] = fmt::format("{}", fmt::join(outputs, ", "));
  info.facts["operators"] = listed(operators);
  info.facts["parameters"] = graph.parameter_count();
  info.facts["multiply-accumulates"] = static_cast<int64_t>(multiply_adds(graph));
  return info;
}

FileInfo safetensors_info(const fs::path& path) {
  SafetensorsSummary summary = summarize_safetensors(path);
  FileInfo info{"safetensors", std::move(summary.tensors), {}, {}};
  const SafetensorsFile metadata{{}, std::move(summary.metadata)};
  const auto plain = plain_metadata(metadata);
  for (const auto& [key, value] : plain) info.facts[key] = value;
  if (plain.size() == metadata.metadata.size()) return info;
  info.kind = "safetensors with packed tensors";
  info.tensors = packed_tensors(read_safetensors(path, TensorCheck::kLater), path);
  return info;
}

FileInfo npy_info(const fs::path& path) {
  const auto file = map_file(path);
  const std::span<const std::byte> bytes = file->bytes();
  const auto prefix = bytes.first(std::min(bytes.size(), kNpyPrefixBytes));
  FileInfo info{"NumPy array", {summarize_npy(prefix, bytes.size(), path.string())}, {}, {}};
  info.tensors.front().name = path.stem().string();
  return info;
}

FileInfo checkpoint_info(const fs::path& path) {
  CheckpointSummary summary = summarize_checkpoint(path);
  return {summary.lightning ? "PyTorch Lightning checkpoint" : "PyTorch checkpoint",
          std::move(summary.tensors),
          std::move(summary.facts),
          {}};
}

FileInfo npz_info(const fs::path& path) { return {"NumPy archive", summarize_npz(path), {}, {}}; }

}  // namespace detent
