#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "detent/io/pickle.h"

namespace detent {

/// A file of torch.save, opened: its pickle, and the storages that the pickle's external values name.
class TorchArchive {
 public:
  virtual ~TorchArchive() = default;

  virtual const std::string& name() const = 0;
  /// Of the file.
  virtual uint64_t byte_size() const = 0;
  virtual const PickleValue& root() const = 0;
  /// Throws Error naming the file when there is no such storage or it is damaged.
  virtual std::span<std::byte> storage(const std::string& key) = 0;
  /// Keeps the storages alive.
  virtual std::shared_ptr<const void> owner() const = 0;
};

/// The zip layout (PyTorch 1.6 and later) or the one before, in which several pickles precede the storages.
std::unique_ptr<TorchArchive> open_torch_archive(const std::filesystem::path& path);

struct TorchStorageId {
  std::string storage_class;  // "FloatStorage"
  std::string key;
  int64_t numel;  // at least 0
};

/// Throws Error, beginning with `file`, when `id` is not PyTorch's tuple.
TorchStorageId parse_storage_id(const PickleValue& id, const std::string& file);

}  // namespace detent
