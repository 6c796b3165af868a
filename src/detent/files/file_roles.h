#pragma once

#include <sys/stat.h>

#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

namespace detent {

/// Files that a program reads and writes, by identity: links and relative paths lead to the same file. None
/// is both, in whichever order, and none is overwritten without permission.
///
/// Libraries keep no such record; a program does while a FileRoles::Use is alive.
class FileRoles {
 public:
  /// Makes `roles` the record consulted by reads and writes.
  class Use {
   public:
    explicit Use(FileRoles* roles);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    FileRoles* before_;
  };

  /// nullptr if there is none.
  static FileRoles* current();

  /// Throws Error if the file will be replaced.
  void note_read(const struct stat& status, const std::filesystem::path& path);
  bool is_read(const std::filesystem::path& path) const;
  /// `target` will be written, and may `replace` what is there. `where`, the option that names it, begins
  /// messages. Throws Error where the file is read, or written twice.
  void note_output(const std::filesystem::path& target, const std::string& where, bool replace);
  /// Whether a file that appeared since may be replaced.
  bool may_replace(const std::filesystem::path& target) const;
  /// The file exists now: the program may read and replace it.
  void note_written(const std::filesystem::path& target);

 private:
  /// Inode numbers are reused; the time tells them apart.
  struct FileId {
    dev_t device = 0;
    ino_t number = 0;
    int64_t seconds = 0;
    int64_t nanoseconds = 0;
    auto operator<=>(const FileId&) const = default;
  };
  struct Output {
    std::string where;
    bool replace = false;
    FileId replaced = {};
  };

  static FileId id_of(const struct stat& status);
  static std::optional<FileId> id_of(const std::filesystem::path& path);

  mutable std::mutex mutex_;
  std::set<FileId> read_;
  std::map<FileId, std::filesystem::path> replaced_;
  std::map<std::filesystem::path, Output> outputs_;  // by canonical path
};

}  // namespace detent
