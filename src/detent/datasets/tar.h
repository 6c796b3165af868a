#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "detent/files/gzip.h"

namespace detent {

/// A regular file of a tar archive.
struct TarMember {
  std::string name;  // a relative path without ".."
  uint64_t size = 0;
};

/// Walks a tar archive (ustar and the older form), gzip-compressed or plain, front to back. Throws Error
/// naming the archive and the member on a damaged or truncated archive, on links, devices and extensions, on
/// absolute names and names with "..", and when members together have more than `limit` bytes, before those
/// are unpacked. Folders are passed over. libarchive would not do: it takes an archive
/// that is cut between two members, or with blocks of zeros among them, for complete, and members of unknown
/// types for files.
class TarReader {
 public:
  TarReader(const std::filesystem::path& path, uint64_t limit);

  /// Goes to the next file, over what was not read of this one; false at the end.
  bool next(TarMember& member);
  /// Fills `target` from the member's unread bytes, and returns how many: fewer than asked for only at its
  /// end.
  size_t read(std::span<std::byte> target);

 private:
  void skip(uint64_t bytes);
  bool read_header(TarMember& member, char& type);

  GzipReader reader_;
  uint64_t limit_;
  uint64_t unread_ = 0;   // of the member
  uint64_t padding_ = 0;  // after it, to a multiple of the block
};

}  // namespace detent
