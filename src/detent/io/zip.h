#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "detent/io/file.h"

namespace detent {

/// A zip archive, zip64 included, of which stored (not compressed) entries are read, as PyTorch's are. Every
/// offset is checked when the archive is opened: entries lie inside the file, do not overlap and have
/// different names.
class ZipReader {
 public:
  struct Entry {
    std::string_view name;  // in the mapped file
    uint64_t offset;        // of the data, in the file
    uint64_t size;          // bytes in the file
    uint64_t unpacked;      // bytes when unpacked
    uint32_t crc;
    uint16_t method;  // 0: stored, 8: deflated
  };

  /// Maps the file. Throws Error naming it when it is no such archive.
  explicit ZipReader(const std::filesystem::path& path);

  /// In the order of the central directory.
  std::span<const Entry> entries() const { return entries_; }
  /// nullptr when absent.
  const Entry* find(std::string_view name) const;
  /// The bytes of an entry, a view of the mapped file; throws Error when they are compressed or do not have
  /// the entry's CRC-32.
  std::span<std::byte> read(const Entry& entry) const;
  const std::string& name() const { return name_; }
  /// Keeps what `read` returns alive.
  const std::shared_ptr<const MappedFile>& file() const { return file_; }

 private:
  void check_overlaps(uint64_t data_end) const;

  std::string name_;
  std::shared_ptr<const MappedFile> file_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, size_t> index_;
};

/// Writes stored entries whose data begin at multiples of 64 bytes, padded in the extra field as PyTorch
/// does.
class ZipWriter {
 public:
  static constexpr uint64_t kZip64From = 0xffffffff;

  /// Sizes and offsets of at least `zip64_from` take the zip64 form (smaller values are for tests).
  explicit ZipWriter(const std::filesystem::path& path, uint64_t zip64_from = kZip64From);

  /// Names must differ and have at most 1024 bytes.
  void add(const std::string& name, std::span<const std::byte> bytes);
  void add(const std::string& name, std::string_view text);
  /// Writes the directory and gives the file its name.
  void commit();

 private:
  struct Entry {
    std::string name;
    uint64_t header_offset;
    uint64_t size;
    uint32_t crc;
  };

  void write_directory_entry(const Entry& entry);
  void write_end(uint64_t directory_offset);

  AtomicFile file_;
  uint64_t zip64_from_;
  std::vector<Entry> entries_;
};

}  // namespace detent
