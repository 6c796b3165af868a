#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace detent {

/// A unique path in the temporary directory, removed at the end.
class TemporaryPath {
 public:
  explicit TemporaryPath(const std::string& name)
      : directory_(testing::TempDir() + "detent_" + std::to_string(getpid()) + "_" + name),
        path_(directory_ / name) {
    std::filesystem::create_directories(directory_);
  }
  ~TemporaryPath() { std::filesystem::remove_all(directory_); }
  TemporaryPath(const TemporaryPath&) = delete;
  TemporaryPath& operator=(const TemporaryPath&) = delete;

  const std::filesystem::path& get() const { return path_; }
  /// Without the flush to the disk that AtomicFile pays for, and that ext4 adds when a file is truncated.
  void overwrite(const std::string& bytes) const {
    std::filesystem::remove(path_);
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

 private:
  std::filesystem::path directory_;
  std::filesystem::path path_;
};

}  // namespace detent
