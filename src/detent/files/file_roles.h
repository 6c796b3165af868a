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

/// Which files a program reads and which it will write, known by what they are: links and relative paths lead
/// to the same file. None is both, in whichever order it turns out, and none is written over that the user
/// has not given up.
///
/// Libraries keep no such record; a program does between the construction and the end of a FileRoles::Use.
class FileRoles {
 public:
  /// Makes `roles` the record that files which are read and written ask.
  class Use {
   public:
    explicit Use(FileRoles* roles);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    FileRoles* before_;
  };

  /// nullptr where none is kept.
  static FileRoles* current();

  /// Throws Error where the file will be replaced.
  void note_read(const struct stat& status, const std::filesystem::path& path);
  bool is_read(const std::filesystem::path& path) const;
  /// `target` will be written, and may `replace` what is there. `where`, the option that names it, begins
  /// messages. Throws Error where the file is read, or written twice.
  void note_output(const std::filesystem::path& target, const std::string& where, bool replace);
  /// Whether a file that has appeared since may be replaced.
  bool may_replace(const std::filesystem::path& target) const;
  /// It is there now: the program may read it, and replace it again.
  void note_written(const std::filesystem::path& target);

 private:
  /// Numbers of files are used again when these are gone: the time tells them apart.
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
