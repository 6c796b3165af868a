#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace detent {

/// Reads a file, or bytes in memory, front to back: plain bytes as they are, gzip-compressed ones (detected
/// by their first two bytes, 1f 8b; several members in a row count as one stream) decompressed. Memory use
/// does not depend on the size of the data. Throws Error, naming the source, on a truncated or corrupt stream
/// (the checksum of each member is verified when its end is reached) and on bytes past the last member.
class GzipReader {
 public:
  explicit GzipReader(const std::filesystem::path& path);
  /// `bytes` must outlive the reader; `name` begins the messages.
  GzipReader(std::span<const std::byte> bytes, std::string name);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /// Fills `target` from its front and returns how many bytes it got: fewer than asked for only at the
  /// end. Faults at the end (checksum, bytes after it) show when a read gets fewer than it asked for.
  size_t read(std::span<std::byte> target);
  /// An upper bound of the bytes that `read` can still return: exact for plain data.
  uint64_t remaining_at_most() const;
  bool compressed() const { return stream_ != nullptr; }
  const std::string& name() const { return name_; }

 private:
  struct Stream;

  void start();
  size_t read_plain(std::span<std::byte> target);
  size_t inflate_some(std::span<std::byte> target);
  void end_member();

  std::string name_;
  std::shared_ptr<const void> file_;   // keeps the mapping of a file alive
  std::span<const std::byte> unread_;  // of the source
  std::unique_ptr<Stream> stream_;     // null when the data is plain
  uint64_t decompressed_ = 0;          // bytes returned so far
};

/// The whole content of gzip-compressed or plain bytes; `name` begins the messages. Throws Error when it is
/// more than `limit` bytes (decompressed); a few bytes that expand beyond it cost no more memory than
/// `limit`.
std::string read_gzip(std::span<const std::byte> bytes, const std::string& name, uint64_t limit);

/// One member that holds `text`.
std::string gzip_text(std::string_view text);

}  // namespace detent
