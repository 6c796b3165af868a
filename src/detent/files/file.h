#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "detent/files/unfinished_file.h"

namespace detent {

/// A file that appears under its name only when it is complete: written to a temporary name beside it
/// (unfinished_file.h, which also says what becomes of symbolic links), flushed to the disk, renamed by
/// `commit`, which flushes the folder too. Without `commit` the temporary file is removed. Every failure (no
/// directory, no permission, disk full) throws Error naming the path and the reason.
class AtomicFile {
 public:
  /// Creates missing parent directories.
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Overwrites earlier bytes; the position stays.
  void overwrite(uint64_t offset, std::string_view text);
  uint64_t position() const { return position_; }
  void commit();

 private:
  [[noreturn]] void fail_with_errno(const char* action) const;

  std::filesystem::path path_;
  UnfinishedFile file_;
  uint64_t position_ = 0;
};

/// AtomicFile in one call.
void write_file(const std::filesystem::path& path, std::string_view text);

/// Input files must not be replaced by outputs (file_roles.h); the program's own outputs may be.
enum class ReadAs { kInput, kOwnResult };

/// The whole file. Throws Error if it cannot be read, is no regular file (it does not wait for a FIFO) or
/// exceeds `limit` bytes.
std::string read_file(const std::filesystem::path& path, uint64_t limit = uint64_t{1} << 32,
                      ReadAs how = ReadAs::kInput);

/// The same for a text, without a UTF-8 byte order mark. Throws Error on UTF-16.
std::string read_text_file(const std::filesystem::path& path, uint64_t limit = uint64_t{1} << 32);

/// A regular file mapped read-only into memory. Tensors that view it keep it alive through
/// `shared_from_this`-like ownership: hold the shared_ptr that `map_file` returns. Reading what was cut off
/// after the mapping's back is a SIGBUS, which handle_signals_for_open_files() explains.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path, ReadAs how = ReadAs::kInput);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// The mapping is private: writing to it changes neither the file nor other mappings.
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::optional<OpenFile> listed_;
};

std::shared_ptr<const MappedFile> map_file(const std::filesystem::path& path, ReadAs how = ReadAs::kInput);

/// Releases whole pages of a mapped file among these bytes; they are read again on access. They must not have
/// been written to.
void release_pages(std::span<const std::byte> bytes);

/// Flushes a folder so that a rename survives a power loss. Does nothing on file systems without that, and
/// for folders that cannot be opened for reading. Throws Error naming the folder.
void flush_folder(const std::filesystem::path& folder);

/// Checks early whether `path` can be written: it is a regular file or absent, and its folder, or the nearest
/// existing one above, accepts new files. Leaves nothing there. Throws Error, beginning with `where`.
void check_writable(const std::filesystem::path& path, const std::string& where);

/// Treatment of a missing folder of a file to write.
enum class MissingFolder { kIsRefused, kIsCreated };

/// Takes `path`, which the option `where` names, for a file that this process will write. Throws Error where
/// it could not be written, where it exists and may not be overwritten, and where it is a file that this
/// process reads (FileRoles), be that by another path or link.
void claim_output(const std::filesystem::path& path, const std::string& where, bool overwrite,
                  MissingFolder missing = MissingFolder::kIsRefused);

/// The parent of `folder` that would have to be created as well; empty if it exists.
std::filesystem::path missing_parent(const std::filesystem::path& folder);

}  // namespace detent
