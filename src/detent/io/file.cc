#include "detent/io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "detent/core/error.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_errno(const char* action, const fs::path& path) {
  fail("cannot {} {}: {}", action, path.string(), std::strerror(errno));
}

/// Closes a descriptor when leaving the scope.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) close(value);
  }
};

int open_for_reading(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_errno("open", path);
  return descriptor;
}

uint64_t regular_file_size(int descriptor, const fs::path& path) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) fail_errno("read", path);
  if (!S_ISREG(status.st_mode)) fail("cannot read {}: not a regular file", path.string());
  return static_cast<uint64_t>(status.st_size);
}

constexpr size_t kRandomLetters = 6;  // behind the dot, of a temporary name

/// How the temporary names of a file begin: its own, cut where they would be longer than file systems take,
/// and a dot.
std::string temporary_prefix(const fs::path& path) {
  constexpr size_t kLongestName = 255;  // NAME_MAX, in bytes
  return path.filename().string().substr(0, kLongestName - 1 - kRandomLetters) + ".";
}

/// So that a rename survives a loss of power. Some file systems have nothing to flush (EINVAL), and a folder
/// that may be written but not read cannot be opened.
void flush_folder(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const Descriptor descriptor{open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (descriptor.value < 0 && errno == EACCES) return;
  if (descriptor.value < 0) fail_errno("open", folder);
  if (fsync(descriptor.value) != 0 && errno != EINVAL) fail_errno("write", folder);
}

}  // namespace

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  std::error_code error;
  if (path_.has_parent_path()) fs::create_directories(path_.parent_path(), error);
  if (error) fail("cannot create directory {}: {}", path_.parent_path().string(), error.message());
  std::string pattern =
      (path_.parent_path() / (temporary_prefix(path_) + std::string(kRandomLetters, 'X'))).string();
  descriptor_ = mkostemp(pattern.data(), O_CLOEXEC);
  if (descriptor_ < 0) fail_errno("create", path_);
  temporary_ = pattern;
  const mode_t mask = umask(0);
  umask(mask);
  fchmod(descriptor_, 0666 & ~mask);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::fail_with_errno(const char* action) const { fail_errno(action, path_); }

void AtomicFile::write(std::span<const std::byte> bytes) {
  DETENT_CHECK(descriptor_ >= 0, "{} is closed", path_.string());
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with_errno("write");
    bytes = bytes.subspan(static_cast<size_t>(written));
    position_ += static_cast<uint64_t>(written);
  }
}

void AtomicFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) fail_with_errno("write");
  const int closed = close(std::exchange(descriptor_, -1));
  if (closed != 0) fail_with_errno("write");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail_with_errno("write");
  temporary_.clear();
  flush_folder(path_);
}

void remove_unfinished_files(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(folder)) return;
  const std::string prefix = temporary_prefix(path);
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_temporary =
        name.size() == prefix.size() + kRandomLetters && name.starts_with(prefix) &&
        std::all_of(name.end() - kRandomLetters, name.end(), [](unsigned char c) { return std::isalnum(c); });
    if (is_temporary && entry.is_regular_file()) leftovers.push_back(entry.path());
  }
  for (const fs::path& leftover : leftovers) fs::remove(leftover);
}

void write_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::string read_file(const fs::path& path, uint64_t limit) {
  const Descriptor descriptor{open_for_reading(path)};
  const uint64_t size = regular_file_size(descriptor.value, path);
  if (size > limit) fail("{} has {} bytes, at most {} are allowed", path.string(), size, limit);
  std::string text(size, '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = read(descriptor.value, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno("read", path);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  text.resize(done);
  return text;
}

MappedFile::MappedFile(const fs::path& path) {
  const Descriptor descriptor{open_for_reading(path)};
  size_ = regular_file_size(descriptor.value, path);
  if (size_ == 0) return;  // mmap refuses empty mappings
  void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor.value, 0);
  if (mapped == MAP_FAILED) fail_errno("map", path);
  data_ = static_cast<std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

std::shared_ptr<const MappedFile> map_file(const fs::path& path) {
  return std::make_shared<const MappedFile>(path);
}

}  // namespace detent
