#include "detent/files/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "detent/core/error.h"
#include "detent/files/file_roles.h"

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

/// Without O_NONBLOCK a FIFO that nobody writes would be waited for.
int open_for_reading(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) fail_errno("open", path);
  return descriptor;
}

uint64_t regular_file_size(int descriptor, const fs::path& path, ReadAs how) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) fail_errno("read", path);
  if (!S_ISREG(status.st_mode)) {
    fail("cannot read {}: it is {}, not a regular file", path.string(), file_type_text(status.st_mode));
  }
  FileRoles* roles = FileRoles::current();
  if (how == ReadAs::kInput && roles != nullptr) roles->note_read(status, path);
  return static_cast<uint64_t>(status.st_size);
}

const fs::path& with_folder(const fs::path& path) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (error) fail("cannot create directory {}: {}", path.parent_path().string(), error.message());
  return path;
}

}  // namespace

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)), file_(with_folder(path_)) {}

void AtomicFile::fail_with_errno(const char* action) const { fail_errno(action, path_); }

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.descriptor(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EFAULT) {
      const std::string source = OpenFile::mapped_at(bytes.data());
      if (!source.empty()) fail("{} was truncated while it was read", source);
      errno = EFAULT;
    }
    if (written < 0) fail_with_errno("write");
    bytes = bytes.subspan(static_cast<size_t>(written));
    position_ += static_cast<uint64_t>(written);
  }
}

void AtomicFile::overwrite(uint64_t offset, std::string_view text) {
  DETENT_CHECK(offset + text.size() <= position_, "bytes {} to {} of {}", offset, offset + text.size(),
               position_);
  while (!text.empty()) {
    const ssize_t written = pwrite(file_.descriptor(), text.data(), text.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with_errno("write");
    text.remove_prefix(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
}

void AtomicFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void AtomicFile::commit() {
  if (fsync(file_.descriptor()) != 0) fail_with_errno("write");
  if (!file_.take_name()) fail_with_errno("write");
  const fs::path folder = file_.target().parent_path();
  flush_folder(folder.empty() ? "." : folder);
}

void write_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::string read_file(const fs::path& path, uint64_t limit, ReadAs how) {
  const Descriptor descriptor{open_for_reading(path)};
  const uint64_t size = regular_file_size(descriptor.value, path, how);
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

std::string read_text_file(const fs::path& path, uint64_t limit) {
  std::string text = read_file(path, limit);
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    fail("{}: it is UTF-16, expected UTF-8: save it so", path.string());
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  return text;
}

MappedFile::MappedFile(const fs::path& path, ReadAs how) {
  const Descriptor descriptor{open_for_reading(path)};
  size_ = regular_file_size(descriptor.value, path, how);
  if (size_ == 0) return;  // mmap refuses empty mappings
  void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor.value, 0);
  if (mapped == MAP_FAILED) fail_errno("map", path);
  data_ = static_cast<std::byte*>(mapped);
  listed_.emplace(path.string(), bytes());
}

MappedFile::~MappedFile() {
  listed_.reset();
  if (data_ != nullptr) munmap(data_, size_);
}

std::shared_ptr<const MappedFile> map_file(const fs::path& path, ReadAs how) {
  return std::make_shared<const MappedFile>(path, how);
}

void release_pages(std::span<const std::byte> bytes) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / page * page;
  if (begin >= end || OpenFile::mapped_at(bytes.data()).empty()) return;
  // Memory that is no file's would be lost.
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void flush_folder(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0 && errno == EACCES) return;
  if (descriptor < 0) fail("cannot open {}: {}", folder.string(), std::strerror(errno));
  const int reason = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  if (reason != 0 && reason != EINVAL) fail("cannot write {}: {}", folder.string(), std::strerror(reason));
}

}  // namespace detent
