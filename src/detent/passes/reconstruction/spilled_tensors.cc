#include "detent/passes/reconstruction/spilled_tensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "detent/core/error.h"

namespace detent {

/// A file without a name: it is gone when it is closed, however the program ends.
struct SpilledTensors::File {
  explicit File(const std::filesystem::path& directory) {
    std::filesystem::create_directories(directory);
    path = (directory / "spilled_XXXXXX").string();
    descriptor = mkstemp(path.data());
    if (descriptor < 0) fail_with_errno("create");
    unlink(path.c_str());
  }
  ~File() { close(descriptor); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = pwrite(descriptor, bytes.data(), bytes.size(), size);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail_with_errno("write");
      size += written;
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }
  void read(std::span<std::byte> bytes, off_t offset) const {
    while (!bytes.empty()) {
      const ssize_t count = pread(descriptor, bytes.data(), bytes.size(), offset);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) fail_with_errno("read");
      offset += count;
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
  }
  [[noreturn]] void fail_with_errno(const char* action) const {
    fail("cannot {} the temporary file \"{}\": {}", action, path, std::strerror(errno));
  }

  std::string path;
  int descriptor = -1;
  off_t size = 0;
};

SpilledTensors::SpilledTensors(int64_t budget_bytes, std::filesystem::path directory)
    : budget_(budget_bytes), directory_(std::move(directory)) {}
SpilledTensors::~SpilledTensors() = default;

void SpilledTensors::put(const std::string& name, int64_t index, const Tensor& tensor) {
  std::vector<Stored>& parts = values_[name];
  DETENT_CHECK(index == static_cast<int64_t>(parts.size()), "{}: part {} behind {}", name, index,
               parts.size());
  Stored& stored = parts.emplace_back();
  stored.dtype = tensor.dtype();
  stored.shape = tensor.shape();
  const auto bytes = static_cast<int64_t>(tensor.byte_size());
  if (in_memory_ + bytes <= budget_) {
    stored.tensor = tensor.clone();
    in_memory_ += bytes;
    return;
  }
  std::unique_ptr<File>& file = files_[name];
  if (file == nullptr) file = std::make_unique<File>(directory_);
  stored.offset = file->size;
  file->write(tensor.bytes());
  spilled_ += bytes;
}

Tensor SpilledTensors::get(const std::string& name, int64_t index) const {
  const Stored& stored = values_.at(name).at(static_cast<size_t>(index));
  if (stored.offset < 0) return stored.tensor;
  Tensor tensor(stored.dtype, stored.shape);
  files_.at(name)->read(tensor.bytes(), stored.offset);
  return tensor;
}

void SpilledTensors::erase(const std::string& name) {
  for (const Stored& stored : values_.at(name)) {
    if (stored.offset < 0) in_memory_ -= static_cast<int64_t>(stored.tensor.byte_size());
  }
  values_.erase(name);
  files_.erase(name);
}

std::vector<std::string> SpilledTensors::names() const {
  std::vector<std::string> names;
  for (const auto& [name, parts] : values_) names.push_back(name);
  return names;
}

}  // namespace detent
