#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "detent/files/open_files.h"

namespace detent {

/// A file that is written beside its target under a temporary name, ".detent-tmp-" and 16 random hexadecimal
/// digits, until `take_name`. No other file has such a name. Whoever writes it holds a lock on it (flock),
/// which ends with the process however that ends: one that can be locked is a leftover of the dead.
class UnfinishedFile {
 public:
  /// Creates it for writing, with the permissions of a file that is there already, else as the umask says.
  /// Leftovers in the folder are removed before, once a folder. Throws Error as `output_file` does, and
  /// naming `target` where the file cannot be created.
  explicit UnfinishedFile(const std::filesystem::path& target);
  /// Removes it unless renamed.
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  const std::filesystem::path& target() const { return target_; }
  int descriptor() const { return descriptor_; }
  /// Replaces the target, or creates it where FileRoles forbid replacing. Returns false on failure, with the
  /// reason in errno.
  bool take_name();

 private:
  std::filesystem::path target_;
  std::optional<mode_t> mode_;  // of the file that it replaces
  int descriptor_ = -1;
  std::unique_ptr<OpenFile> file_;
};

/// The file that a program writes when it is told to write `path`: a symbolic link stands for what it points
/// to, be it there or not, if the link belongs to the user or to the owner of the folder that it lies in; the
/// rule by which Linux protects shared folders. Throws Error on links of others, and on what is there and is
/// no regular file (a folder, a device, a FIFO).
std::filesystem::path output_file(const std::filesystem::path& path);

/// Likewise a folder, which is written until it is exchanged with its target: whatever has the temporary name
/// in the end is removed.
class UnfinishedFolder {
 public:
  /// Beside `target`. Throws Error naming it.
  explicit UnfinishedFolder(const std::filesystem::path& target);
  ~UnfinishedFolder();
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
  std::unique_ptr<OpenFile> folder_;
};

/// Removes temporary files and folders of dead processes from `folder`, if it exists. Those of living
/// processes stay, and all where the file system has no locks.
void remove_unfinished_files(const std::filesystem::path& folder);

/// A descriptor, for reading and writing, of a file without a name; -1 with the reason in errno.
int create_nameless_file(const std::filesystem::path& folder);

/// "a folder", "a FIFO (named pipe)", ...: kind of a file that is not regular.
const char* file_type_text(mode_t mode);

}  // namespace detent
