#include "detent/cli/file_info.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "detent/core/error.h"
#include "detent/io/file.h"
#include "detent/io/graph_file.h"
#include "detent/io/npy.h"
#include "detent/io/npz.h"
#include "detent/io/packed_tensors.h"
#include "detent/io/safetensors.h"
#include "detent/io/torch_checkpoint.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

FileInfo graph_info(const fs::path& path, SafetensorsSummary summary) {
  const Graph graph = read_graph(path);
  Table facts{{"name", graph.name()}, {"parameters", graph.parameter_count()}};
  return {"graph", std::move(summary.tensors), std::move(facts), graph.nodes()};
}

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

FileInfo safetensors_info(const fs::path& path) {
  SafetensorsSummary summary = summarize_safetensors(path);
  const auto format = summary.metadata.find("format");
  if (format != summary.metadata.end() && format->second == "detent.graph") {
    return graph_info(path, std::move(summary));
  }
  FileInfo info{"safetensors", std::move(summary.tensors), {}, {}};
  const SafetensorsFile metadata{{}, std::move(summary.metadata)};
  const auto plain = plain_metadata(metadata);
  for (const auto& [key, value] : plain) info.facts[key] = value;
  if (plain.size() == metadata.metadata.size()) return info;
  info.kind = "safetensors with packed tensors";
  info.tensors = packed_tensors(read_safetensors(path), path);
  return info;
}

FileInfo npy_info(const fs::path& path, std::span<const std::byte> bytes) {
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

bool has_at(std::span<const std::byte> bytes, size_t offset, std::string_view text) {
  return bytes.size() >= offset + text.size() &&
         std::memcmp(bytes.data() + offset, text.data(), text.size()) == 0;
}

/// A zip archive whose first entry is a .npy file.
bool is_npz(std::span<const std::byte> bytes) {
  constexpr size_t kNameLength = 26;
  constexpr size_t kName = 30;
  if (!has_at(bytes, 0, "PK\x03\x04") || bytes.size() < kName) return false;
  const size_t length =
      std::to_integer<size_t>(bytes[kNameLength]) + (std::to_integer<size_t>(bytes[kNameLength + 1]) << 8U);
  constexpr std::string_view kEnding = ".npy";
  return length >= kEnding.size() && has_at(bytes, kName + length - kEnding.size(), kEnding);
}

}  // namespace

FileInfo read_file_info(const fs::path& path) {
  const auto file = map_file(path);
  const std::span<const std::byte> bytes = file->bytes();
  constexpr size_t kSafetensorsHeader = 8;
  constexpr size_t kTarMagic = 257;
  if (has_at(bytes, 0, "\x93NUMPY")) return npy_info(path, bytes);
  if (is_npz(bytes)) return {"NumPy archive", summarize_npz(path), {}, {}};
  // PyTorch writes zip archives, in older times pickles, long ago tar archives.
  if (has_at(bytes, 0, "PK") || has_at(bytes, 0, "\x80") || has_at(bytes, kTarMagic, "ustar"))
    return checkpoint_info(path);
  if (has_at(bytes, kSafetensorsHeader, "{")) return safetensors_info(path);
  fail(
      "{}: {}, expected a graph (.mz), a checkpoint of PyTorch (.pt, .th, .ckpt), .safetensors, .npy or .npz",
      path.string(), bytes.empty() ? "is empty" : "holds nothing that is known by its first bytes");
}

}  // namespace detent
