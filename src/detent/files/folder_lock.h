#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>

namespace detent {

/// The right to write what is in a folder. One process has it at a time, by a lock (flock) on the file
/// ".<name>.detent-lock" beside the folder, which ends with the process however that ends. The file says who
/// holds the lock; it is removed at the end.
class FolderLock {
 public:
  /// What flock does; another one in tests.
  using Locker = std::function<int(int descriptor, int operation)>;

  /// Creates missing folders above. Throws Error that names the folder and the process that holds it: its
  /// command, number, host and start time. Where the file system has no locks, `warn` hears of it, and there
  /// is none.
  FolderLock(const std::filesystem::path& folder, const std::string& command,
             const std::function<void(const std::string&)>& warn, const Locker& locker = {});
  ~FolderLock();
  /// Where the lock on a folder lies; one that was killed leaves it there.
  static std::filesystem::path file_for(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace detent
