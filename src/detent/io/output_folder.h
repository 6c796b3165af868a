#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace detent {

/// A folder whose files are one result: they replace those of an earlier result all together, or not at all.
/// They are written into a folder with a temporary name beside it, which `commit` exchanges with the folder
/// in one step (renameat2). What the user has put into the folder stays in it; a list of what an earlier
/// result consists of is kept in the file ".detent-outputs".
class OutputFolder {
 public:
  /// Nothing is created before the first call of `staged`. `warn` hears when the file system cannot exchange
  /// folders, and files are replaced one by one.
  OutputFolder(const std::filesystem::path& folder, std::function<void(const std::string&)> warn);
  /// Removes what was not committed.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Where to write, until `commit`, what shall become `path`; `path` itself where that is not in the folder,
  /// whichever links lead there.
  std::filesystem::path staged(const std::filesystem::path& path);
  /// Where to read it: as `staged` if it was written there, else `path`.
  std::filesystem::path readable(const std::filesystem::path& path) const;
  /// Does nothing where nothing was staged. Throws Error naming the folder, which then is as it was.
  void commit();

 private:
  void create_staging();
  void carry_over() const;
  void replace_one_by_one();

  std::filesystem::path folder_;  // canonical: a link to a folder stays one
  std::function<void(const std::string&)> warn_;
  std::filesystem::path staging_;
  int lock_ = -1;  // on the staging folder: it belongs to the living
};

}  // namespace detent
