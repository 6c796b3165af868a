#include "detent/cli/file_kind.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>

#include "detent/checkpoints/gguf/gguf_file.h"
#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/files/file.h"
#include "detent/files/safetensors.h"
#include "detent/graph_files/graph_file.h"
#include "detent/graph_files/graph_layout.h"
#include "detent/graph_files/packed_tensors.h"
#include "detent/language/language_model.h"
#include "detent/onnx/import_onnx.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;

bool has_at(Bytes bytes, size_t offset, std::string_view text) {
  return bytes.size() >= offset + text.size() &&
         std::memcmp(bytes.data() + offset, text.data(), text.size()) == 0;
}

/// The length of a header, then the header. The length's first bytes may be those that other formats begin
/// with (0x80 of a pickle, "PK" of a zip archive), but it is below 2^27, so that zeros follow, and none of
/// the others has zeros and a brace there.
bool has_header(Bytes bytes) {
  constexpr uint64_t kMostHeaderBytes = 100'000'000;
  uint64_t length = 0;
  if (!has_at(bytes, sizeof(length), "{")) return false;
  std::memcpy(&length, bytes.data(), sizeof(length));
  return length <= kMostHeaderBytes;
}

bool is_graph(const fs::path& path, Bytes bytes) {
  if (!has_header(bytes)) return false;
  const auto metadata = summarize_safetensors(path).metadata;
  const auto format = metadata.find("format");
  return format != metadata.end() && format->second == graph_layout::kFormat;
}

bool is_safetensors(const fs::path& path, Bytes bytes) { return has_header(bytes) && !is_graph(path, bytes); }

bool is_gguf_file(const fs::path& /*path*/, Bytes bytes) { return is_gguf(bytes); }

bool is_npy(const fs::path& /*path*/, Bytes bytes) { return has_at(bytes, 0, "\x93NUMPY"); }

/// A zip archive whose first entry is a .npy file.
bool is_npz(const fs::path& /*path*/, Bytes bytes) {
  constexpr size_t kNameLength = 26;
  constexpr size_t kName = 30;
  if (!has_at(bytes, 0, "PK\x03\x04") || bytes.size() < kName) return false;
  const size_t length =
      std::to_integer<size_t>(bytes[kNameLength]) + (std::to_integer<size_t>(bytes[kNameLength + 1]) << 8U);
  constexpr std::string_view kEnding = ".npy";
  return length >= kEnding.size() && has_at(bytes, kName + length - kEnding.size(), kEnding);
}

/// PyTorch writes zip archives, in older times pickles, long ago tar archives.
bool is_checkpoint(const fs::path& path, Bytes bytes) {
  constexpr size_t kTarMagic = 257;
  if (has_header(bytes) || is_npz(path, bytes)) return false;
  return has_at(bytes, 0, "PK") || has_at(bytes, 0, "\x80") || has_at(bytes, kTarMagic, "ustar");
}

bool is_lightning(const fs::path& path, Bytes bytes) {
  return is_checkpoint(path, bytes) && summarize_checkpoint(path).lightning;
}

bool is_plain_checkpoint(const fs::path& path, Bytes bytes) {
  return is_checkpoint(path, bytes) && !summarize_checkpoint(path).lightning;
}

/// ModelProto's first field, which every writer puts first: the IR version, a small number; then a field that
/// it has.
bool is_onnx(const fs::path& /*path*/, Bytes bytes) {
  constexpr auto kIrVersion = std::byte{0x08};
  constexpr auto kNewestVersion = std::byte{0x20};
  constexpr auto kLastField = std::byte{0xff};
  return bytes.size() > 2 && bytes[0] == kIrVersion && bytes[1] > std::byte{0} && bytes[1] < kNewestVersion &&
         bytes[2] > std::byte{8} && bytes[2] < kLastField && !has_header(bytes);
}

/// By its name, since JSON may be anything.
bool is_language_config(const fs::path& path, Bytes bytes) {
  return path.filename() == "config.json" && (has_at(bytes, 0, "{") || bytes.empty());
}

Graph read_language_model(const fs::path& path) {
  return read_language_folder(fs::absolute(path).parent_path());
}

Graph read_model(const fs::path& path) { return import_onnx(path); }

StateDict read_lightning_state(const fs::path& path) { return without_model_prefix(read_state_dict(path)); }

/// The tensors of a safetensors file, packed ones decoded.
StateDict read_safetensors_state(const fs::path& path) {
  const Scratch scratch(fs::temp_directory_path());
  StateDict state;
  for (const StoredTensor& tensor :
       unpack_tensors(read_safetensors(path, TensorCheck::kLater), path.string()))
    state.emplace_back(tensor.name, stored_values(tensor, scratch));
  return state;
}

constexpr const char* kCheckpoint = "a checkpoint of PyTorch";
constexpr const char* kCheckpointFiles = "a checkpoint of PyTorch (.pt, .th, .ckpt)";

// No file is of two kinds.
constexpr FileKind kKinds[] = {
    {"mz", "a graph", "a graph (.mz)", is_graph, graph_info, read_graph},
    {"onnx", "an ONNX model", "an ONNX model", is_onnx, onnx_info, read_model},
    {"pt", kCheckpoint, kCheckpointFiles, is_plain_checkpoint, checkpoint_info, read_state_dict},
    {"pl", kCheckpoint, kCheckpointFiles, is_lightning, checkpoint_info, read_lightning_state},
    {"safetensors", "safetensors", ".safetensors", is_safetensors, safetensors_info, read_safetensors_state},
    {"hf", "a language model", "the folder of a language model (config.json)", is_language_config,
     language_info, read_language_model},
    {"gguf", "a GGUF file", "a GGUF file", is_gguf_file, gguf_info, read_language_gguf},
    {nullptr, "a NumPy array", ".npy", is_npy, npy_info},
    {nullptr, "a NumPy archive", ".npz", is_npz, npz_info},
};

/// Signatures of other programs' files that a user may take for a network's.
struct ForeignKind {
  size_t offset;
  std::string_view begin;
  const char* text;
};

constexpr ForeignKind kForeignKinds[] = {
    {4, "TFL3", "a model of TensorFlow Lite: write it as ONNX (tf2onnx)"},
    {0, "\x89HDF", "HDF5, as Keras writes it: write the network as ONNX (tf2onnx)"},
    {0, "<?xml", "XML: of OpenVINO's networks the ONNX model is needed that they come from"},
};

std::string unknown_text(Bytes bytes) {
  if (bytes.empty()) return "is empty";
  for (const ForeignKind& kind : kForeignKinds) {
    if (has_at(bytes, kind.offset, kind.begin)) return std::string("is ") + kind.text;
  }
  return "holds nothing that is known by its first bytes";
}

std::vector<std::string> load_types() {
  std::vector<std::string> names;
  for (const FileKind& kind : kKinds) {
    if (kind.load_type != nullptr) names.emplace_back(kind.load_type);
  }
  return names;
}

}  // namespace

const FileKind& file_kind(const fs::path& path) {
  const auto file = map_file(path);
  for (const FileKind& kind : kKinds) {
    if (kind.recognises(path, file->bytes())) return kind;
  }
  throw DetailedError(
      fmt::format("{}: {}, expected {}", path.string(), unknown_text(file->bytes()), file_kinds_text()),
      {.file = path.string(), .allowed = file_kinds_text()});
}

const FileKind& graph_kind() {
  return *std::ranges::find_if(kKinds, [](const FileKind& kind) { return kind.recognises == is_graph; });
}

const FileKind& onnx_kind() {
  return *std::ranges::find_if(kKinds, [](const FileKind& kind) { return kind.recognises == is_onnx; });
}

std::string file_kinds_text() {
  std::vector<std::string> texts;
  for (const FileKind& kind : kKinds) {
    if (texts.empty() || texts.back() != kind.expected) texts.emplace_back(kind.expected);
  }
  const std::string last = std::move(texts.back());
  texts.pop_back();
  return fmt::format("{} or {}", fmt::join(texts, ", "), last);
}

LoadType::LoadType() : kind_(kKinds) {}

std::string LoadType::field_type() { return fmt::format("one of {}", fmt::join(load_types(), ", ")); }

LoadType LoadType::from_value(const Value& value, const std::string& where) {
  const std::string* name = value.get_if<std::string>();
  if (name == nullptr) {
    fail("{}: got {} ({}), expected {}", where, value_text(value), value.kind_name(), field_type());
  }
  for (const FileKind& kind : kKinds) {
    if (kind.load_type != nullptr && *name == kind.load_type) return LoadType(kind);
  }
  fail("{}: {}", where, unknown_name_message("value", *name, load_types()));
}

}  // namespace detent
