#include "detent/io/file_kind.h"

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "detent/core/error.h"
#include "detent/io/file.h"
#include "detent/io/graph_layout.h"
#include "detent/io/safetensors.h"

namespace detent {
namespace {

bool has_at(std::span<const std::byte> bytes, size_t offset, std::string_view text) {
  return bytes.size() >= offset + text.size() &&
         std::memcmp(bytes.data() + offset, text.data(), text.size()) == 0;
}

/// The length of a header, then the header. The length's first bytes may be those that other formats begin
/// with (0x80 of a pickle, "PK" of a zip archive), but it is below 2^27, so that zeros follow, and none of
/// the others has zeros and a brace there.
bool is_safetensors(std::span<const std::byte> bytes) {
  constexpr uint64_t kMostHeaderBytes = 100'000'000;
  uint64_t length = 0;
  if (!has_at(bytes, sizeof(length), "{")) return false;
  std::memcpy(&length, bytes.data(), sizeof(length));
  return length <= kMostHeaderBytes;
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

/// ModelProto's first field, which every writer puts first: the IR version, a small number; then a field that
/// it has.
bool is_onnx(std::span<const std::byte> bytes) {
  constexpr auto kIrVersion = std::byte{0x08};
  constexpr auto kNewestVersion = std::byte{0x20};
  constexpr auto kLastField = std::byte{0xff};
  return bytes.size() > 2 && bytes[0] == kIrVersion && bytes[1] > std::byte{0} && bytes[1] < kNewestVersion &&
         bytes[2] > std::byte{8} && bytes[2] < kLastField;
}

bool is_graph(const std::filesystem::path& path) {
  const auto metadata = summarize_safetensors(path).metadata;
  const auto format = metadata.find("format");
  return format != metadata.end() && format->second == graph_layout::kFormat;
}

}  // namespace

FileKind file_kind(const std::filesystem::path& path) {
  const auto file = map_file(path);
  const std::span<const std::byte> bytes = file->bytes();
  constexpr size_t kTarMagic = 257;
  if (is_safetensors(bytes)) return is_graph(path) ? FileKind::kGraph : FileKind::kSafetensors;
  if (has_at(bytes, 0, "\x93NUMPY")) return FileKind::kNpy;
  if (is_npz(bytes)) return FileKind::kNpz;
  // PyTorch writes zip archives, in older times pickles, long ago tar archives.
  if (has_at(bytes, 0, "PK") || has_at(bytes, 0, "\x80") || has_at(bytes, kTarMagic, "ustar"))
    return FileKind::kCheckpoint;
  if (is_onnx(bytes)) return FileKind::kOnnx;
  fail(
      "{}: {}, expected a graph (.mz), an ONNX model, a checkpoint of PyTorch (.pt, .th, .ckpt), "
      ".safetensors, .npy or .npz",
      path.string(), bytes.empty() ? "is empty" : "holds nothing that is known by its first bytes");
}

const char* file_kind_text(FileKind kind) {
  constexpr const char* kTexts[] = {"a graph",       "safetensors",     "a checkpoint of PyTorch",
                                    "a NumPy array", "a NumPy archive", "an ONNX model"};
  return kTexts[static_cast<size_t>(kind)];
}

}  // namespace detent
