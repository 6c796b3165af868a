#include <algorithm>
#include <optional>
#include <utility>

#include "detent/cli/read_network.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/files/array_files.h"
#include "detent/graph/node_names.h"
#include "detent/language/language_graph.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/model_file.h"
#include "detent/workflows/network_values.h"

namespace detent {
namespace {

/// Tables have rows by negative indices too, vocabularies no negative tokens.
void check_tokens(const Tensor& tokens, const std::string& file) {
  if (tokens.dtype() != DType::kInt64) return;
  for (const int64_t token : tokens.values<int64_t>()) {
    if (token < 0) fail("{}: got the token {}, expected 0 or more", file, token);
  }
}

/// The array of an input, by its name or that of its node; nullptr where none is given.
const GivenArray* array_for(const GivenInputs& given, const std::string& name, const std::string& node) {
  const auto found = std::ranges::find_if(
      given.arrays, [&](const GivenArray& array) { return array.name == name || array.name == node; });
  return found == given.arrays.end() ? nullptr : &*found;
}

Tensor given_tensor(const GivenArray& array, const std::string& name, DType dtype) {
  const std::optional<Tensor> tensor = as_input_dtype(array.tensor, dtype);
  if (!tensor) {
    fail("{}: got {}, expected {} for the input \"{}\" (numpy: x.astype(\"{}\") where that is meant)",
         array.file, dtype_name(array.tensor.dtype()), dtype_name(dtype), name, dtype_name(dtype));
  }
  if (name == kTokensInput) check_tokens(*tensor, array.file);
  return *tensor;
}

}  // namespace

Tensor read_array(const std::filesystem::path& file) {
  return file.extension() == ".pb" ? read_onnx_tensor(file) : read_npy(file);
}

GivenInputs given_inputs(std::span<const std::string> inputs, std::span<const std::string> shapes) {
  GivenInputs given{named_shapes(shapes), {}};
  for (const std::string& text : inputs) {
    const bool is_named = text.find('=') != std::string::npos && !std::filesystem::exists(text);
    if (text.ends_with(".npz") && !is_named) {
      for (auto& [name, tensor] : read_npz(text)) given.arrays.push_back({name, text, std::move(tensor)});
      continue;
    }
    auto [name, file] = named_value("--input", "FILE", text);
    if (file.ends_with(".npz"))
      throw UsageError(fmt::format("--input {}: a .npz file has arrays by name: --input {}", text, file));
    Tensor tensor = read_array(file);
    given.arrays.push_back({std::move(name), std::move(file), std::move(tensor)});
  }
  return given;
}

namespace {

/// With the shapes of the arrays for what the network leaves open; nothing where it does not take them.
std::optional<Graph> network_for_arrays(const std::filesystem::path& path, const GivenInputs& given) {
  InputShapes shapes = given.shapes;
  for (const GivenArray& array : given.arrays) shapes.try_emplace(array.name, array.tensor.shape());
  if (shapes.size() == given.shapes.size()) return std::nullopt;
  try {
    return read_network(path, shapes);
  } catch (const Error& error) {
    log_debug("not at the sizes of the arrays: {}", error.what());
    return std::nullopt;
  }
}

/// Whether the arrays have shapes that it takes, whatever these are.
bool takes(const Graph& graph, const GivenInputs& given) {
  InputShapes shapes;
  for (const GivenArray& array : given.arrays) shapes.try_emplace(array.name, array.tensor.shape());
  return !lacks_branches(graph) && takes_shapes(graph, shapes);
}

}  // namespace

Graph read_network(const std::filesystem::path& path, const GivenInputs& given) {
  try {
    Graph graph = read_network(path, given.shapes);
    if (takes(graph, given)) return graph;
    return network_for_arrays(path, given).value_or(std::move(graph));
  } catch (const Error&) {
    std::optional<Graph> graph = network_for_arrays(path, given);
    if (!graph) throw;
    return std::move(*graph);
  }
}

NamedSizes given_sizes(const Graph& graph, const GivenInputs& given) {
  NamedSizes sizes;
  std::vector<std::string> known;
  for (const std::string& node : graph.input_names()) {
    const std::string name = source_name(graph, NodeInput::of(node));
    known.push_back(name);
    const TensorType& type = graph.input_types().find(node)->second;
    const auto shape = given.shapes.find(name);
    if (shape != given.shapes.end() && !type.matches(shape->second, sizes)) {
      fail("--shape {}: got {}, expected one that fits {}", name, shape_text(shape->second),
           tensor_type_text(type));
    }
    if (const GivenArray* const array = array_for(given, name, node))
      static_cast<void>(type.matches(array->tensor.shape(), sizes));
  }
  const auto check_known = [&](const char* option, const std::string& name) {
    if (std::ranges::find(known, name) == known.end())
      fail("{}: {}", option, unknown_name_message("input", name, known));
  };
  for (const auto& [name, shape] : given.shapes) check_known("--shape", name);
  for (const GivenArray& array : given.arrays) {
    if (!graph.input_types().contains(array.name)) check_known("--input", array.name);
  }
  return sizes;
}

std::vector<Tensor> input_tensors(const Graph& graph, const GivenInputs& given, const NamedSizes& sizes,
                                  const std::function<void(std::span<float>)>& fill) {
  std::vector<Tensor> tensors;
  for (const std::string& node : graph.input_names()) {
    const std::string name = source_name(graph, NodeInput::of(node));
    const TensorType& type = graph.input_types().find(node)->second;
    if (const GivenArray* const array = array_for(given, name, node)) {
      tensors.push_back(given_tensor(*array, name, type.dtype));
      continue;
    }
    Tensor otherwise(type.dtype, type.concrete(sizes));
    if (name == kMaskInput && type.dtype == DType::kInt64) std::ranges::fill(otherwise.values<int64_t>(), 1);
    if (fill && type.dtype == DType::kFloat32) fill(otherwise.values<float>());
    tensors.push_back(std::move(otherwise));
  }
  return tensors;
}

}  // namespace detent
