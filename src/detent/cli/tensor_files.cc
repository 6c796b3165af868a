#include "detent/cli/tensor_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/core/error.h"
#include "detent/core/name_pattern.h"
#include "detent/files/array_files.h"
#include "detent/graph/graph_parameters.h"
#include "detent/graph_files/graph_file.h"
#include "detent/graph_files/graph_layout.h"

namespace detent {
namespace {

bool names_npy(const std::filesystem::path& path) { return path.extension() == ".npy"; }

bool names_checkpoint(const std::filesystem::path& path) {
  constexpr std::array kEndings = {".pt", ".pth", ".th", ".ckpt"};
  return std::ranges::find(kEndings, path.extension()) != kEndings.end();
}

TensorFile plain_tensors(const std::vector<std::pair<std::string, Tensor>>& tensors) {
  TensorFile file;
  for (const auto& [name, tensor] : tensors) file.tensors.push_back({name, tensor});
  return file;
}

TensorFile gguf_tensors(const std::filesystem::path& path) {
  TensorFile file;
  for (GgufTensor& tensor : read_gguf(path).tensors) {
    std::string name = tensor.name;
    file.tensors.push_back({std::move(name), std::move(tensor)});
  }
  return file;
}

std::string percent(double share) { return fmt::format("{:.2f}%", 100 * share); }

}  // namespace

TensorFile read_tensor_file(const std::filesystem::path& path) {
  if (names_npy(path)) return {{{path.stem().string(), read_npy(path)}}, {}};
  if (path.extension() == ".npz") return plain_tensors(read_npz(path));
  if (path.extension() == ".gguf") return gguf_tensors(path);
  if (names_checkpoint(path)) return plain_tensors(read_state_dict(path));
  const SafetensorsFile file = read_safetensors(path, TensorCheck::kLater);
  const auto format = file.metadata.find("format");
  const bool is_graph = format != file.metadata.end() && format->second == graph_layout::kFormat;
  if (is_graph) return plain_tensors(state_dict(read_graph(path)));
  return {unpack_tensors(file, path.string()), plain_metadata(file)};
}

void check_tensor_file_name(const std::filesystem::path& path, bool packed) {
  if (path.extension() != ".safetensors" && !names_npy(path)) {
    throw UsageError(
        fmt::format("output \"{}\": expected a name that ends in .safetensors or .npy", path.string()));
  }
  if (packed && names_npy(path)) {
    throw UsageError(fmt::format("output \"{}\": packed tensors need a .safetensors file", path.string()));
  }
}

void write_tensor_file(const std::filesystem::path& path, const std::vector<PackedEntry>& entries,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<Tensor(size_t)>& load, const Scratch& scratch) {
  const bool packed = std::ranges::any_of(entries, [](const auto& entry) { return entry.spec.has_value(); });
  check_tensor_file_name(path, packed);
  if (!names_npy(path)) return write_packed_tensors(path, entries, metadata, load, scratch);
  if (entries.size() != 1) {
    fail("{}: a .npy file holds one tensor, got {}; expected a .safetensors file", path.string(),
         entries.size());
  }
  write_npy(path, load(0));
}

Scratch scratch_beside(const std::filesystem::path& output) {
  if (output.empty()) return Scratch(std::filesystem::temp_directory_path());
  std::filesystem::path directory = std::filesystem::absolute(output).parent_path();
  while (!std::filesystem::exists(directory) && directory.has_relative_path()) {
    directory = directory.parent_path();  // is not made before there is something to write
  }
  return Scratch(std::move(directory));
}

DType stored_dtype(const StoredTensor& tensor) {
  if (const auto* stored = std::get_if<GgufTensor>(&tensor.content)) return gguf_dtype(*stored);
  const auto* plain = std::get_if<Tensor>(&tensor.content);
  return plain != nullptr ? plain->dtype() : DType::kFloat32;
}

const Shape& stored_shape(const StoredTensor& tensor) {
  if (const auto* stored = std::get_if<GgufTensor>(&tensor.content)) return stored->shape;
  const auto* plain = std::get_if<Tensor>(&tensor.content);
  return plain != nullptr ? plain->shape() : std::get<Encoded>(tensor.content).shape;
}

Tensor float_values(const StoredTensor& tensor, const Scratch& scratch) {
  return scratch.to_float32(stored_values(tensor, scratch));
}

NameFilter::NameFilter(const std::string& expression) : matches_([](const std::string&) { return true; }) {
  if (expression.empty()) return;
  try {
    matches_ = [pattern = NamePattern(expression, "--tensors")](const std::string& name) {
      return pattern.occurs_in(name);
    };
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

std::vector<std::string> distortion_columns() {
  return {"SQNR dB", "MSE", "max error", "cosine", "saturated", "zeros", "values used"};
}

std::vector<std::string> distortion_cells(const Distortion& distortion) {
  const std::optional<double> saturated = distortion.saturated_share();
  const DistinctValues& values = distortion.distinct_values();
  return {fmt::format("{:.2f}", distortion.sqnr_db()),
          fmt::format("{:.4g}", distortion.mean_squared_error()),
          fmt::format("{:.4g}", distortion.max_error()),
          fmt::format("{:.6f}", distortion.cosine()),
          saturated ? percent(*saturated) : "-",
          percent(distortion.zero_share()),
          values.too_many() ? fmt::format("> {}", DistinctValues::kLimit) : std::to_string(values.size())};
}

}  // namespace detent
