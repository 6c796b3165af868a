#include "detent/files/unfinished_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "detent/core/error.h"
#include "detent/files/file_roles.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".detent-tmp-";
constexpr std::string_view kFolderMark = ".detent-tmp-folder-";
constexpr size_t kDigits = 16;
constexpr int kMostLinks = 40;  // as many as Linux follows
constexpr int kMostAttempts = 100;

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

std::string temporary_name(std::string_view mark = kMark) {
  uint64_t random = 0;
  DETENT_CHECK(getrandom(&random, sizeof(random), 0) == sizeof(random), "getrandom: {}",
               std::strerror(errno));
  return fmt::format("{}{:016x}", mark, random);
}

bool is_temporary_name(std::string_view name, std::string_view mark = kMark) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return name.size() == mark.size() + kDigits && name.starts_with(mark) &&
         std::ranges::all_of(name.substr(mark.size()), is_digit);
}

bool lock_now(int descriptor) { return flock(descriptor, LOCK_EX | LOCK_NB) == 0; }

/// Locks what was created just now. False when another process has taken it for a leftover. Without a lock
/// where the file system has none: then nobody takes it for one.
bool keep_by_lock(int descriptor) {
  if (!lock_now(descriptor)) return errno != EWOULDBLOCK;
  struct stat status {};
  return fstat(descriptor, &status) == 0 && status.st_nlink > 0;
}

/// A writer that created it and comes to lock it now finds it locked or without a name, and makes another.
void remove_if_left(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return;
  struct stat status {};
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && lock_now(descriptor)) {
    unlink(path.c_str());
  }
  close(descriptor);
}

void remove_folder_if_left(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return;
  std::error_code ignored;  // what cannot be removed is tried again by the next
  if (lock_now(descriptor)) fs::remove_all(path, ignored);
  close(descriptor);
}

/// Folders may be large: each is looked through once.
void remove_unfinished_files_once(const fs::path& folder) {
  static std::mutex mutex;
  static std::set<fs::path> seen;
  const std::lock_guard lock(mutex);
  if (seen.insert(folder).second) remove_unfinished_files(folder);
}

/// nullopt when it does not exist. A link to it counts as what it is.
std::optional<struct stat> status_of(const fs::path& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0) return status;
  if (errno != ENOENT) fail("cannot write {}: {}", path.string(), std::strerror(errno));
  return std::nullopt;
}

/// Fails with EEXIST where there is something of that name.
int rename_to_new(const char* from, const char* to) {
  if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;
  // The file system does not know the flag.
  if (link(from, to) != 0) return -1;
  unlink(from);
  return 0;
}

void check_link_owner(const fs::path& link, uid_t owner, const fs::path& path) {
  struct stat folder {};
  if (owner == geteuid()) return;
  if (stat(folder_of(link).c_str(), &folder) == 0 && owner == folder.st_uid) return;
  fail("cannot write {}: {} is a symbolic link of another user", path.string(), link.string());
}

}  // namespace

const char* file_type_text(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO (named pipe)";
  if (S_ISSOCK(mode)) return "a socket";
  return S_ISLNK(mode) ? "a symbolic link" : "a device";
}

fs::path output_file(const fs::path& path) {
  fs::path file = path;
  for (int links = 0; links <= kMostLinks; ++links) {
    const std::optional<struct stat> status = status_of(file);
    if (!status) return file;
    if (!S_ISLNK(status->st_mode)) {
      if (!S_ISREG(status->st_mode)) {
        fail("cannot write {}: it is {}, expected a regular file", path.string(),
             file_type_text(status->st_mode));
      }
      return file;
    }
    check_link_owner(file, status->st_uid, path);
    std::error_code error;
    file = folder_of(file) / fs::read_symlink(file, error);
    if (error) fail("cannot write {}: {}", path.string(), error.message());
  }
  fail("cannot write {}: more than {} symbolic links", path.string(), kMostLinks);
}

UnfinishedFile::UnfinishedFile(const fs::path& target) : target_(output_file(target)) {
  const fs::path folder = folder_of(target_);
  remove_unfinished_files_once(folder);
  if (const std::optional<struct stat> status = status_of(target_)) mode_ = status->st_mode & 0777;
  // Its owner can open it as long as it has the temporary name, so that leftovers can be locked.
  const mode_t mode = mode_.value_or(0666) | 0600;
  int error = EAGAIN;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const std::string path = (folder / temporary_name()).string();
    file_ = std::make_unique<OpenFile>(path, [&] {
      descriptor_ = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
      error = errno;
      return descriptor_ >= 0;
    });
    if (descriptor_ >= 0 && keep_by_lock(descriptor_)) return;
    if (descriptor_ >= 0) close(descriptor_);
    if (descriptor_ < 0 && error != EEXIST) break;
  }
  fail("cannot create {}: {}", target.string(), std::strerror(error));
}

UnfinishedFile::~UnfinishedFile() {
  if (file_ != nullptr) unlink(file_->path().c_str());
  if (descriptor_ >= 0) close(descriptor_);
}

bool UnfinishedFile::take_name() {
  if (mode_ && fchmod(descriptor_, *mode_) != 0) return false;
  FileRoles* roles = FileRoles::current();
  const bool replaces = roles == nullptr || roles->may_replace(target_);
  const char* name = file_->path().c_str();
  if ((replaces ? std::rename(name, target_.c_str()) : rename_to_new(name, target_.c_str())) != 0)
    return false;
  file_.reset();
  if (roles != nullptr) roles->note_written(target_);
  return true;
}

UnfinishedFolder::UnfinishedFolder(const fs::path& target) {
  int error = EEXIST;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    path_ = folder_of(target) / temporary_name(kFolderMark);
    const char* name = path_.c_str();
    bool is_made = false;
    const auto make = [&] {
      is_made = mkdir(name, 0777) == 0;
      error = errno;
      return is_made;
    };
    folder_ = std::make_unique<OpenFile>(path_.string(), make, OpenFile::Temporary::kFolder);
    if (!is_made && error == EEXIST) continue;
    if (!is_made) break;
    lock_ = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    error = errno;
    if (lock_ >= 0 && keep_by_lock(lock_)) return;
    if (lock_ >= 0) close(lock_);
  }
  fail("cannot create a folder beside {}: {}", target.string(), std::strerror(error));
}

UnfinishedFolder::~UnfinishedFolder() {
  std::error_code ignored;  // the next process that writes here removes what is left
  fs::remove_all(path_, ignored);
  close(lock_);
}

void remove_unfinished_files(const fs::path& folder) {
  std::error_code unreadable;  // where there is nothing to list there is nothing to remove
  for (fs::directory_iterator entry(folder, unreadable), end; !unreadable && entry != end;
       entry.increment(unreadable)) {
    const std::string name = entry->path().filename().string();
    if (is_temporary_name(name)) remove_if_left(entry->path());
    if (is_temporary_name(name, kFolderMark)) remove_folder_if_left(entry->path());
  }
}

int create_nameless_file(const fs::path& folder) {
  const int nameless = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (nameless >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return nameless;
  // The file system has none. One that is left between the two calls has a name that marks it as a leftover.
  const std::string path = (folder / temporary_name()).string();
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor >= 0) unlink(path.c_str());
  return descriptor;
}

}  // namespace detent
