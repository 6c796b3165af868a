#include "detent/files/output_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/file_roles.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kList = ".detent-outputs";

/// Relative paths of what is no folder, sorted.
std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_symlink() || !entry.is_directory())
      files.push_back(entry.path().lexically_relative(folder).string());
  }
  std::ranges::sort(files);
  return files;
}

/// Relative paths of the result that a folder holds. None where no result was written.
std::set<std::string> listed_in(const fs::path& folder) {
  if (!fs::is_regular_file(fs::symlink_status(folder / kList))) return {};
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  std::istringstream lines(read_file(folder / kList, kMostBytes, ReadAs::kOwnResult));
  std::set<std::string> files = {kList};
  for (std::string line; std::getline(lines, line);) files.insert(line);
  return files;
}

[[noreturn]] void refuse_replacing(const fs::path& path) {
  fail(
      "{} exists, and is no part of an earlier result: choose another folder, or replace it with --overwrite",
      path.string());
}

[[noreturn]] void refuse_input(const fs::path& path) {
  fail("{} is read, and would be replaced: choose another folder for the result", path.string());
}

/// Another name for the same file, so that it is there before and after; a copy where the file system has no
/// links.
void link_or_copy(const fs::path& from, const fs::path& to) {
  fs::create_directories(to.parent_path());
  if (fs::is_symlink(from)) return fs::copy_symlink(from, to);
  std::error_code no_links;
  fs::create_hard_link(from, to, no_links);
  if (no_links) fs::copy_file(from, to);
}

void flush_folders_in(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory() && !entry.is_symlink()) flush_folder(entry.path());
  }
  flush_folder(folder);
}

bool is_beneath(const fs::path& relative) { return !relative.empty() && *relative.begin() != ".."; }

/// Whichever links lead to it, and whatever of it is there.
fs::path real_path(const fs::path& path) {
  return fs::weakly_canonical(fs::absolute(path / "").parent_path());
}

/// A folder that something is mounted on is on another file system than what lies beside it.
void move_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error == std::errc::cross_device_link) return write_file(to, read_file(from));
  if (error) fail("{}: {}", to.string(), error.message());
}

/// On some file systems, and where another one is mounted on the folder.
bool is_unable_to_exchange(int error) {
  return error == EINVAL || error == ENOSYS || error == ENOTSUP || error == EXDEV || error == EBUSY;
}

/// Files that dead processes left in the folder itself are none of the user's.
void remove_unfinished_files_below(const fs::path& folder) {
  std::vector<fs::path> folders = {folder};
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory() && !entry.is_symlink()) folders.push_back(entry.path());
  }
  std::ranges::for_each(folders, remove_unfinished_files);
}

}  // namespace

OutputFolder::OutputFolder(const fs::path& folder, bool overwrite,
                           std::function<void(const std::string&)> warn)
    : folder_(real_path(folder)), overwrite_(overwrite), warn_(std::move(warn)) {
  const std::set<std::string> listed = listed_in(folder_);
  check_names_not_read(folder_, {listed.begin(), listed.end()});
}

OutputFolder::~OutputFolder() = default;

void OutputFolder::check_names(const std::vector<std::string>& names) const {
  if (overwrite_) return;
  const std::set<std::string> listed = listed_in(folder_);
  for (const std::string& name : names) {
    const fs::file_status status = fs::symlink_status(folder_ / name);
    if (fs::exists(status) && !fs::is_directory(status) && !listed.contains(name))
      refuse_replacing(folder_ / name);
  }
}

std::optional<fs::path> OutputFolder::name_of(const fs::path& path) const {
  const fs::path whole = fs::absolute(path / "").parent_path();
  const fs::path named = real_path(whole.parent_path()) / whole.filename();
  const fs::path relative = real_path(whole) == folder_ ? "." : named.lexically_relative(folder_);
  return is_beneath(relative) ? std::optional(relative.lexically_normal()) : std::nullopt;
}

fs::path OutputFolder::staged(const fs::path& path) {
  const std::optional<fs::path> name = name_of(path);
  if (!name) return path;
  check_names({name->string()});
  if (staging_ == nullptr) create_staging();
  return (staging_->path() / *name).lexically_normal();
}

fs::path OutputFolder::readable(const fs::path& path) const {
  const std::optional<fs::path> name = name_of(path);
  if (staging_ == nullptr || !name) return path;
  const fs::path written = (staging_->path() / *name).lexically_normal();
  return fs::exists(written) ? written : path;
}

void OutputFolder::create_staging() {
  const fs::file_status status = fs::status(folder_);
  if (fs::exists(status) && !fs::is_directory(status)) {
    fail("cannot write {}: it is a file, expected a folder", folder_.string());
  }
  fs::create_directories(folder_.parent_path());
  remove_unfinished_files(folder_.parent_path());
  staging_ = std::make_unique<UnfinishedFolder>(folder_);
}

void OutputFolder::carry_over() const {
  if (!fs::exists(folder_)) return;
  remove_unfinished_files_below(folder_);
  const std::set<std::string> replaced = listed_in(folder_);
  for (const std::string& file : files_in(folder_)) {
    if (replaced.contains(file) || fs::exists(fs::symlink_status(staging_->path() / file))) continue;
    link_or_copy(folder_ / file, staging_->path() / file);
  }
  fs::permissions(staging_->path(), fs::status(folder_).permissions());
}

void OutputFolder::replace_one_by_one() {
  warn_(fmt::format(
      "{} cannot be exchanged for another folder where it is: its files are replaced one by one, so that "
      "a run that is killed now leaves some of both results",
      folder_.string()));
  std::set<std::string> old = listed_in(folder_);
  for (const std::string& file : files_in(staging_->path())) {
    fs::create_directories((folder_ / file).parent_path());
    move_file(staging_->path() / file, folder_ / file);
    old.erase(file);
  }
  for (const std::string& file : old) fs::remove(folder_ / file);
}

void OutputFolder::commit() {
  if (staging_ == nullptr) return;
  const fs::path& staging = staging_->path();
  const std::vector<std::string> files = files_in(staging);
  check_names(files);
  try {
    std::string list;
    for (const std::string& file : files) list += file + "\n";
    write_file(staging / kList, list);
    carry_over();
    flush_folders_in(staging);
    const bool replaces = fs::exists(folder_);
    if (renameat2(AT_FDCWD, staging.c_str(), AT_FDCWD, folder_.c_str(), replaces ? RENAME_EXCHANGE : 0) ==
        0) {
      flush_folder(folder_.parent_path());
    } else if (replaces && is_unable_to_exchange(errno)) {
      replace_one_by_one();
    } else {
      fail("{}", std::strerror(errno));
    }
  } catch (const std::exception& error) {
    fail("cannot write {}: {}", folder_.string(), error.what());
  }
  staging_.reset();  // what was replaced, if anything
}

void check_names_not_read(const fs::path& folder, const std::vector<std::string>& names) {
  const FileRoles* roles = FileRoles::current();
  if (roles == nullptr) return;
  for (const std::string& name : names) {
    const fs::path path = folder / name;
    if (roles->is_read(path)) refuse_input(path);
    if (!fs::is_directory(path)) continue;
    for (const std::string& file : files_in(path)) {
      if (roles->is_read(path / file)) refuse_input(path / file);
    }
  }
}

ClaimedNames::ClaimedNames(const fs::path& folder, const std::vector<std::string>& names, bool overwrite)
    : folder_(fs::absolute(folder)), listed_(listed_in(folder_)) {
  for (const std::string& name : names) {
    if (!overwrite && !listed_.contains(name) && fs::exists(fs::symlink_status(folder_ / name)))
      refuse_replacing(folder / name);
  }
  listed_.insert(names.begin(), names.end());
  listed_.erase(kList);
  std::string list;
  for (const std::string& name : listed_) list += name + "\n";
  write_file(folder_ / kList, list);
}

ClaimedNames::~ClaimedNames() {
  std::error_code ignored;
  const auto is_there = [&](const std::string& name) {
    return fs::exists(fs::symlink_status(folder_ / name, ignored));
  };
  if (std::ranges::none_of(listed_, is_there)) fs::remove(folder_ / kList, ignored);
}

}  // namespace detent
