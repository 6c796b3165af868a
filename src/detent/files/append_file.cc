#include "detent/files/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "detent/core/error.h"
#include "detent/files/unfinished_file.h"

namespace detent {
namespace {

[[noreturn]] void fail_append(const char* action, const std::filesystem::path& path, int error) {
  fail("cannot {} {}: {}", action, path.string(), std::strerror(error));
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path, uint64_t keep) : path_(std::move(path)) {
  if (!std::filesystem::exists(path_)) return;
  open_file();
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) fail_append("open", path_, errno);
  size_ = std::min(keep, static_cast<uint64_t>(status.st_size));
  if (ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) fail_append("shorten", path_, errno);
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void AppendFile::open_file() {
  std::error_code error;
  if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path(), error);
  if (error) fail("cannot create directory {}: {}", path_.parent_path().string(), error.message());
  descriptor_ =
      open(output_file(path_).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_append("open", path_, errno);
}

void AppendFile::append(std::string_view record) {
  if (descriptor_ < 0) open_file();
  std::string_view left = record;
  while (!left.empty()) {
    const ssize_t written = write(descriptor_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int reason = errno;
      if (ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) fail_append("shorten", path_, errno);
      fail_append("write", path_, reason);
    }
    left.remove_prefix(static_cast<size_t>(written));
  }
  size_ += record.size();
}

void AppendFile::flush() {
  if (descriptor_ >= 0 && fsync(descriptor_) != 0) fail_append("write", path_, errno);
}

}  // namespace detent
