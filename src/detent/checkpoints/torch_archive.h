#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "detent/checkpoints/pickle.h"

namespace detent {

/// A storage, as an external value of the pickle describes it.
struct TorchStorageId {
  /// Part of another storage, in elements: files of PyTorch before 0.4 have such.
  struct Part {
    int64_t offset;
    int64_t numel;
  };

  std::string_view storage_class;  // "FloatStorage"
  std::string_view key;
  int64_t numel;  // at least 0; of the whole storage
  std::optional<Part> part = std::nullopt;
};

/// Throws Error, beginning with `file`, when `id` is not PyTorch's tuple.
TorchStorageId parse_storage_id(const PickleValue& id, const std::string& file);

/// A file of torch.save, opened: its pickle, and the storages that the pickle's external values name.
class TorchArchive {
 public:
  virtual ~TorchArchive() = default;

  /// "zip" or "legacy".
  virtual std::string_view layout() const = 0;
  virtual const std::string& name() const = 0;
  /// Size of the file.
  virtual uint64_t byte_size() const = 0;
  /// Memory that the values of its pickles may take, and a state_dict beside its elements: each half the
  /// file's size. Files of many small tensors need more.
  static uint64_t memory_for_values(uint64_t file_bytes) {
    constexpr uint64_t kLeast = uint64_t{8} << 20;
    return std::max(file_bytes / 2, kLeast);
  }
  virtual const PickleValue& root() const = 0;
  /// Bytes of a storage, without touching them. Throws Error naming the file when there is none.
  virtual uint64_t storage_size(std::string_view key) const = 0;
  /// Elements of `element_size` bytes, which take this machine's byte order in place. Throws Error naming the
  /// file when there is no such storage, when it is damaged, and when its byte order was already changed for
  /// elements of another size.
  virtual std::span<std::byte> storage(std::string_view key, size_t element_size) = 0;
  /// Keeps the storages alive.
  virtual std::shared_ptr<const void> owner() const = 0;
};

/// The zip layout (PyTorch 1.6 and later) or the one before, in which several pickles precede the storages.
std::unique_ptr<TorchArchive> open_torch_archive(const std::filesystem::path& path);

}  // namespace detent
