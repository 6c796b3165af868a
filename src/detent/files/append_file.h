#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace detent {

/// A file that grows by whole records. Each is written when it is given; one that does not fit on the disk
/// leaves nothing of itself. Every failure throws Error naming the path and the reason.
class AppendFile {
 public:
  /// Keeps the first `keep` bytes of a file that is there, or fewer if it has fewer. One that is not appears,
  /// with missing parent directories, when the first record is given. Symbolic links are dealt with as
  /// output_file says (unfinished_file.h).
  AppendFile(std::filesystem::path path, uint64_t keep);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view record);
  uint64_t size() const { return size_; }
  /// All of it is on the disk when this returns.
  void flush();

 private:
  void open_file();

  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

}  // namespace detent
