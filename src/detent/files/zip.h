#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "detent/files/file.h"

namespace detent {

/// A zip archive, zip64 included, of stored and deflated entries. The directory is checked when the archive
/// is opened: entries lie inside the file, do not overlap and have different names. What precedes the data of
/// an entry is read and checked together with them.
class ZipReader {
 public:
  struct Entry {
    std::string_view name;   // in the mapped file
    uint64_t header_offset;  // in the file
    uint64_t size;           // bytes in the file
    uint64_t unpacked;       // bytes when unpacked
    uint32_t crc;
    uint16_t method;  // 0: stored, 8: deflated
  };

  /// Maps the file. Throws Error naming it when it is no such archive.
  explicit ZipReader(const std::filesystem::path& path);

  /// In the order of the central directory.
  std::span<const Entry> entries() const { return entries_; }
  /// nullptr when absent.
  const Entry* find(std::string_view name) const;
  /// The bytes of a stored entry, a view of the mapped file; throws Error when they are compressed or do not
  /// have the entry's CRC-32.
  std::span<std::byte> read(const Entry& entry) const;

  struct Unpacked {
    std::span<std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  /// The bytes of any entry: as `read` gives them or, where they are deflated, in memory of their own. Throws
  /// Error, before it takes that memory, on a size that no deflated data of this length can have.
  Unpacked unpack(const Entry& entry) const;
  /// The first bytes of an entry, at most `limit`, without a check of the CRC-32.
  std::vector<std::byte> prefix(const Entry& entry, size_t limit) const;
  const std::string& name() const { return name_; }
  /// Keeps results of `read` alive.
  const std::shared_ptr<const MappedFile>& file() const { return file_; }

 private:
  void check_overlaps(uint64_t data_end) const;
  std::span<std::byte> stored(const Entry& entry) const;
  void check_method(const Entry& entry) const;
  void inflate_into(const Entry& entry, std::span<std::byte> target) const;

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
  /// Writes the directory and renames the file.
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
