#include "detent/files/output_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>

#include "detent/core/error.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLockAttempts = 100;

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown host";
}

/// "detent train toy (process 4711 on host a since 2026-01-31 12:00:00 UTC)"
std::string description_of_this(const std::string& command) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> time{};
  std::strftime(time.data(), time.size(), "%Y-%m-%d %H:%M:%S UTC", &utc);
  return fmt::format("{} (process {} on host {} since {})", command, getpid(), host_name(), time.data());
}

/// The holder's description: one line of printable characters.
std::string description_in(int descriptor) {
  std::array<char, 1024> text{};
  const ssize_t count = pread(descriptor, text.data(), text.size(), 0);
  std::string result;
  for (const char c : std::string_view(text.data(), count > 0 ? static_cast<size_t>(count) : 0)) {
    if (c == '\n') break;
    result += c >= ' ' && c <= '~' ? c : '?';
  }
  return result.empty() ? "another process" : result;
}

/// Whether the file that is open still has its name: its last holder may have removed it.
bool has_name(int descriptor, const fs::path& path) {
  struct stat opened {};
  struct stat named {};
  return fstat(descriptor, &opened) == 0 && lstat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder, const std::string& command,
                       const std::function<void(const std::string&)>& warn, const Locker& locker) {
  path_ = file_for(folder);
  std::error_code error;
  fs::create_directories(path_.parent_path(), error);
  if (error) fail("cannot create directory {}: {}", path_.parent_path().string(), error.message());
  for (int attempt = 0; attempt < kMostLockAttempts; ++attempt) {
    descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail("cannot create {}: {}", path_.string(), std::strerror(errno));
    const int locked =
        locker ? locker(descriptor_, LOCK_EX | LOCK_NB) : flock(descriptor_, LOCK_EX | LOCK_NB);
    if (locked == 0 && !has_name(descriptor_, path_)) {
      close(std::exchange(descriptor_, -1));
      continue;
    }
    if (locked != 0 && errno == EWOULDBLOCK) {
      const std::string holder = description_in(descriptor_);
      close(std::exchange(descriptor_, -1));
      fail("{} is being written by {}: wait until it has ended, or choose another folder", folder.string(),
           holder);
    }
    if (locked != 0) {
      warn(fmt::format(
          "{} cannot be locked ({}): two commands that write it at the same time would not notice it",
          folder.string(), std::strerror(errno)));
    }
    const std::string text = description_of_this(command) + "\n";
    if (ftruncate(descriptor_, 0) != 0 ||
        pwrite(descriptor_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
      warn(fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
    }
    return;
  }
  fail("cannot lock {}: it comes and goes", path_.string());
}

fs::path FolderLock::file_for(const fs::path& folder) {
  const fs::path absolute = fs::weakly_canonical(fs::absolute(folder / "").parent_path());
  return absolute.parent_path() / ("." + absolute.filename().string() + ".detent-lock");
}

FolderLock::~FolderLock() {
  if (descriptor_ < 0) return;
  // Before the lock ends, so that nobody can hold a file that is about to lose its name.
  unlink(path_.c_str());
  close(descriptor_);
}

}  // namespace detent
