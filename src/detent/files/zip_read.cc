#include <zlib.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "detent/core/error.h"
#include "detent/core/tensor.h"
#include "detent/files/byte_reader.h"
#include "detent/files/checksums.h"
#include "detent/files/zip.h"

namespace detent {
namespace {

constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint32_t kDirectorySignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kLocator64Signature = 0x07064b50;
constexpr size_t kEndBytes = 22;
constexpr size_t kLocator64Bytes = 20;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kLocalBytes = 30;
constexpr size_t kDirectoryEntryBytes = 46;
constexpr uint16_t kZip64Field = 1;
constexpr uint16_t kEncrypted = 1;
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
constexpr uint64_t kMostInflation = 1032;  // bytes from one: zlib's manual, "maximum compression factor"
constexpr uint32_t kIn64 = 0xffffffff;     // the value stands in the zip64 record

struct Directory {
  uint64_t offset;
  uint64_t bytes;
  uint64_t entries;
};

/// Raw deflated data (RFC 1951), front to back.
class Inflater {
 public:
  explicit Inflater(std::span<const std::byte> packed) : packed_(packed) {
    constexpr int kRaw = -15;  // no header, the largest window
    DETENT_CHECK(inflateInit2(&stream_, kRaw) == Z_OK, "zlib");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// How many bytes it got: fewer than asked for at the end and at the first damage.
  size_t read(std::span<std::byte> target) {
    constexpr size_t kMostAtOnce = size_t{1} << 30;  // zlib counts in 32 bits
    size_t done = 0;
    while (done < target.size()) {
      const std::span<const std::byte> input = packed_.first(std::min(packed_.size(), kMostAtOnce));
      const std::span<std::byte> output = target.subspan(done, std::min(target.size() - done, kMostAtOnce));
      stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(input.data()));
      stream_.avail_in = static_cast<uInt>(input.size());
      stream_.next_out = reinterpret_cast<Bytef*>(output.data());
      stream_.avail_out = static_cast<uInt>(output.size());
      const int status = inflate(&stream_, Z_NO_FLUSH);
      packed_ = packed_.subspan(input.size() - stream_.avail_in);
      done += output.size() - stream_.avail_out;
      if (status != Z_OK) break;
    }
    return done;
  }

 private:
  std::span<const std::byte> packed_;
  z_stream stream_{};
};

void check_crc(std::span<const std::byte> bytes, const ZipReader::Entry& entry, const std::string& name) {
  const uint32_t crc = crc32(bytes);
  if (crc != entry.crc) {
    fail("{}: entry \"{}\" is damaged: its CRC-32 is {:08x}, expected {:08x}", name, entry.name, crc,
         entry.crc);
  }
}

class DirectoryReader {
 public:
  DirectoryReader(std::span<const std::byte> file, const std::string& name) : file_(file), name_(name) {}

  Directory find() const {
    const size_t end = find_end();
    ByteReader reader = at(end + 4);
    const auto disk = reader.number<uint16_t>();
    const auto directory_disk = reader.number<uint16_t>();
    const auto entries_here = reader.number<uint16_t>();
    Directory directory{};
    directory.entries = reader.number<uint16_t>();
    directory.bytes = reader.number<uint32_t>();
    directory.offset = reader.number<uint32_t>();
    const bool whole = disk == directory_disk && entries_here == directory.entries;
    const bool needs_64 =
        directory.offset == kIn64 || directory.bytes == kIn64 || directory.entries == 0xffff;
    if (!whole) fail("{}: a zip archive in several parts", name_);
    size_t limit = end;
    if (needs_64) directory = find_64(end, limit);
    if (directory.offset > limit || directory.bytes > limit - directory.offset ||
        directory.entries > directory.bytes / kDirectoryEntryBytes) {
      fail("{}: damaged zip archive: {} entries in {} bytes at {} are not inside the file", name_,
           directory.entries, directory.bytes, directory.offset);
    }
    return directory;
  }

  ZipReader::Entry read_entry(ByteReader& reader) const {
    if (reader.number<uint32_t>() != kDirectorySignature) fail("{}: damaged zip directory", name_);
    reader.take(4);  // versions
    const auto flags = reader.number<uint16_t>();
    ZipReader::Entry entry{};
    entry.method = reader.number<uint16_t>();
    reader.take(4);  // time and date
    entry.crc = reader.number<uint32_t>();
    entry.size = reader.number<uint32_t>();
    entry.unpacked = reader.number<uint32_t>();
    const auto name_bytes = reader.number<uint16_t>();
    const auto extra_bytes = reader.number<uint16_t>();
    const auto comment_bytes = reader.number<uint16_t>();
    reader.take(8);  // disk and attributes
    uint64_t header = reader.number<uint32_t>();
    entry.name = reader.text(name_bytes);
    read_extra(reader.take(extra_bytes), entry.unpacked, entry.size, header);
    reader.take(comment_bytes);
    if ((flags & kEncrypted) != 0) fail("{}: entry \"{}\" is encrypted", name_, entry.name);
    if (entry.method == kStored && entry.unpacked != entry.size) {
      fail("{}: damaged zip archive: entry \"{}\" has two sizes", name_, entry.name);
    }
    entry.header_offset = header;
    return entry;
  }

 private:
  ByteReader at(uint64_t offset) const {
    if (offset > file_.size()) fail("{}: damaged zip archive: offset {} is outside the file", name_, offset);
    return {file_.subspan(offset), name_};
  }

  size_t find_end() const {
    constexpr size_t kMaxComment = 0xffff;
    for (size_t comment = 0; comment <= kMaxComment && comment + kEndBytes <= file_.size(); ++comment) {
      const size_t offset = file_.size() - comment - kEndBytes;
      ByteReader reader = at(offset);
      if (reader.number<uint32_t>() != kEndSignature) continue;
      reader.take(kEndBytes - 6);
      if (reader.number<uint16_t>() == comment) return offset;
    }
    fail("{}: not a zip archive, or cut off: it has no directory at its end", name_);
  }

  /// `limit` becomes the offset of the zip64 end record, which follows the directory.
  Directory find_64(size_t end, size_t& limit) const {
    if (end < kLocator64Bytes) fail("{}: damaged zip archive: no zip64 locator", name_);
    ByteReader locator = at(end - kLocator64Bytes);
    if (locator.number<uint32_t>() != kLocator64Signature)
      fail("{}: damaged zip archive: no zip64 locator", name_);
    locator.take(4);
    const auto offset = locator.number<uint64_t>();
    ByteReader reader = at(offset);
    if (offset > end - kLocator64Bytes || reader.remaining() < kEnd64Bytes ||
        reader.number<uint32_t>() != kEnd64Signature) {
      fail("{}: damaged zip archive: no zip64 record", name_);
    }
    limit = offset;
    reader.take(28);  // own size, versions, disks, entries on this disk
    Directory directory{};
    directory.entries = reader.number<uint64_t>();
    directory.bytes = reader.number<uint64_t>();
    directory.offset = reader.number<uint64_t>();
    return directory;
  }

  /// Values that do not fit 32 bits stand in the zip64 field, in this order.
  void read_extra(std::span<const std::byte> extra, uint64_t& unpacked, uint64_t& size,
                  uint64_t& header) const {
    ByteReader reader(extra, name_);
    while (reader.remaining() >= 4) {
      const auto id = reader.number<uint16_t>();
      ByteReader field(reader.take(reader.number<uint16_t>()), name_);
      if (id != kZip64Field) continue;
      for (uint64_t* value : {&unpacked, &size, &header}) {
        if (*value == kIn64) *value = field.number<uint64_t>();
      }
    }
  }

  std::span<const std::byte> file_;
  const std::string& name_;
};

}  // namespace

ZipReader::ZipReader(const std::filesystem::path& path) : name_(path.string()), file_(map_file(path)) {
  const std::span<const std::byte> bytes = file_->bytes();
  const DirectoryReader directory_reader(bytes, name_);
  const Directory directory = directory_reader.find();
  ByteReader reader(bytes.subspan(directory.offset, directory.bytes), name_);
  entries_.reserve(directory.entries);
  for (uint64_t i = 0; i < directory.entries; ++i) entries_.push_back(directory_reader.read_entry(reader));
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!index_.emplace(entries_[i].name, i).second) {
      fail("{}: the archive has two entries \"{}\"", name_, entries_[i].name);
    }
  }
  check_overlaps(directory.offset);
}

void ZipReader::check_overlaps(uint64_t data_end) const {
  std::vector<const Entry*> sorted;
  for (const Entry& entry : entries_) sorted.push_back(&entry);
  std::ranges::sort(sorted, {}, &Entry::header_offset);
  for (size_t i = 0; i < sorted.size(); ++i) {
    const Entry& entry = *sorted[i];
    const uint64_t end = i + 1 < sorted.size() ? sorted[i + 1]->header_offset : data_end;
    const uint64_t before_data = kLocalBytes + entry.name.size();  // and an extra field, which `stored` reads
    if (entry.header_offset > end || end - entry.header_offset < before_data ||
        end - entry.header_offset - before_data < entry.size) {
      fail("{}: damaged zip archive: entry \"{}\" overlaps another, the directory or the end of the file",
           name_, entry.name);
    }
  }
}

const ZipReader::Entry* ZipReader::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

std::span<std::byte> ZipReader::stored(const Entry& entry) const {
  const std::span<std::byte> file = file_->bytes();
  ByteReader reader(file.subspan(entry.header_offset), name_);
  if (reader.number<uint32_t>() != kLocalSignature) {
    fail("{}: damaged zip archive: entry \"{}\" has no header", name_, entry.name);
  }
  reader.take(22);
  const auto name_bytes = reader.number<uint16_t>();
  const auto extra_bytes = reader.number<uint16_t>();
  if (reader.text(name_bytes) != entry.name) {
    fail("{}: damaged zip archive: entry \"{}\" has another name in its header", name_, entry.name);
  }
  reader.take(extra_bytes);
  if (entry.size > reader.remaining()) {
    fail("{}: entry \"{}\" of {} bytes ends after the file", name_, entry.name, entry.size);
  }
  return file.subspan(entry.header_offset + reader.position(), entry.size);
}

std::span<std::byte> ZipReader::read(const Entry& entry) const {
  if (entry.method != kStored) {
    fail("{}: entry \"{}\" is compressed (method {}); PyTorch stores entries as they are", name_, entry.name,
         entry.method);
  }
  const std::span<std::byte> bytes = stored(entry);
  check_crc(bytes, entry, name_);
  return bytes;
}

void ZipReader::check_method(const Entry& entry) const {
  if (entry.method != kStored && entry.method != kDeflated) {
    fail("{}: entry \"{}\" is compressed with method {}, supported are 0 (stored) and 8 (deflated)", name_,
         entry.name, entry.method);
  }
  if (entry.method == kDeflated && entry.unpacked / kMostInflation > entry.size) {
    fail("{}: damaged zip archive: entry \"{}\" of {} bytes cannot unpack to {}", name_, entry.name,
         entry.size, entry.unpacked);
  }
}

ZipReader::Unpacked ZipReader::unpack(const Entry& entry) const {
  check_method(entry);
  if (entry.method == kStored) return {read(entry), file_};
  Tensor target(DType::kUInt8, {static_cast<int64_t>(entry.unpacked)});
  inflate_into(entry, target.bytes());
  check_crc(target.bytes(), entry, name_);
  return {target.bytes(), target.owner()};
}

std::vector<std::byte> ZipReader::prefix(const Entry& entry, size_t limit) const {
  check_method(entry);
  std::vector<std::byte> result(std::min<uint64_t>(limit, entry.unpacked));
  if (entry.method == kStored) {
    std::ranges::copy(stored(entry).first(result.size()), result.begin());
  } else {
    inflate_into(entry, result);
  }
  return result;
}

/// Fills `target`, the entry or its beginning.
void ZipReader::inflate_into(const Entry& entry, std::span<std::byte> target) const {
  Inflater inflater(stored(entry));
  const size_t size = inflater.read(target);
  const bool whole = target.size() == entry.unpacked;
  std::byte more{};
  if (size != target.size() || (whole && inflater.read(std::span(&more, 1)) != 0)) {
    fail("{}: entry \"{}\" is damaged: it does not unpack to {} bytes", name_, entry.name, entry.unpacked);
  }
}

}  // namespace detent
