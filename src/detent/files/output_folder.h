#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "detent/files/unfinished_file.h"

namespace detent {

/// A folder whose files are one result: they replace those of an earlier result all together, or not at all.
/// They are written into a folder with a temporary name beside it, which `commit` exchanges with the folder
/// in one step (renameat2). What the user has put into the folder stays in it, and nothing is written over it
/// unless `overwrite` says so; a list of what an earlier result consists of is kept in the file
/// ".detent-outputs".
class OutputFolder {
 public:
  /// Nothing is created before the first call of `staged`. `warn` hears when the file system cannot exchange
  /// folders, and files are replaced one by one. Throws Error where a file of the earlier result is read by
  /// this process (FileRoles).
  OutputFolder(const std::filesystem::path& folder, bool overwrite,
               std::function<void(const std::string&)> warn);
  /// Removes uncommitted files.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Throws Error where a file that will be written, called so in the folder, would replace one that is no
  /// part of an earlier result. `staged` and `commit` ask as well, but after the work.
  void check_names(const std::vector<std::string>& names) const;
  /// Where to write until `commit` what becomes `path`; `path` itself if it is outside of the folder, through
  /// whatever links.
  std::filesystem::path staged(const std::filesystem::path& path);
  /// Where to read it: as `staged` if written there, else `path`.
  std::filesystem::path readable(const std::filesystem::path& path) const;
  /// Does nothing if nothing was staged. Throws Error naming the folder, which is then unchanged.
  void commit();

 private:
  /// The relative path of what lies in the folder.
  std::optional<std::filesystem::path> name_of(const std::filesystem::path& path) const;
  void create_staging();
  void carry_over() const;
  void replace_one_by_one();

  std::filesystem::path folder_;  // canonical: a link to a folder stays one
  bool overwrite_;
  std::function<void(const std::string&)> warn_;
  std::unique_ptr<UnfinishedFolder> staging_;
};

/// For commands that replace what a folder holds one by one: throws Error where the process has read one of
/// these files and folders.
void check_names_not_read(const std::filesystem::path& folder, const std::vector<std::string>& names);

/// The names of what such a command writes, in the list of the folder, so that another run of the command may
/// replace it. The list goes where nothing that it names has appeared.
class ClaimedNames {
 public:
  /// Throws Error if one exists that is no part of an earlier result, unless `overwrite`.
  ClaimedNames(const std::filesystem::path& folder, const std::vector<std::string>& names, bool overwrite);
  ~ClaimedNames();
  ClaimedNames(const ClaimedNames&) = delete;
  ClaimedNames& operator=(const ClaimedNames&) = delete;

 private:
  std::filesystem::path folder_;
  std::set<std::string> listed_;
};

/// Exclusive right to write into a folder, by a lock (flock) on the file ".<name>.detent-lock" beside it,
/// which ends with the process. The file names the holder and is removed at the end.
class FolderLock {
 public:
  /// flock, or a substitute of tests.
  using Locker = std::function<int(int descriptor, int operation)>;

  /// Creates missing folders above. Throws Error that names the folder and the process that holds it: its
  /// command, number, host and start time. Where the file system has no locks, `warn` hears of it, and there
  /// is none.
  FolderLock(const std::filesystem::path& folder, const std::string& command,
             const std::function<void(const std::string&)>& warn, const Locker& locker = {});
  ~FolderLock();
  /// Path of a folder's lock; a killed process leaves it there.
  static std::filesystem::path file_for(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace detent
