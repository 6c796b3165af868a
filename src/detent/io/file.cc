#include "detent/io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

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

}  // namespace

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  std::error_code error;
  if (path_.has_parent_path()) fs::create_directories(path_.parent_path(), error);
  if (error) fail("cannot create directory {}: {}", path_.parent_path().string(), error.message());
  std::string pattern = path_.string() + ".XXXXXX";
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
