#include <zlib.h>

#include <algorithm>
#include <utility>

#include "detent/core/error.h"
#include "detent/files/zip.h"

namespace detent {
namespace {

constexpr uint64_t kDataAlignment = 64;
constexpr size_t kMaxName = 1024;
constexpr uint16_t kUtf8Name = 0x0800;
constexpr uint32_t kDate = 0x0021 << 16;  // 1980-01-01, midnight: equal content gives equal bytes
constexpr uint16_t kVersion = 20;
constexpr uint16_t kVersion64 = 45;
constexpr uint16_t kWrittenZip64Field = 1;
constexpr uint32_t kWrittenIn64 = 0xffffffff;

/// A little-endian record.
class Record {
 public:
  template <class... Numbers>
  explicit Record(Numbers... numbers) {
    (append(numbers), ...);
  }
  template <class T>
  void append(T number) {
    static_assert(std::is_unsigned_v<T>);
    text_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  void append(const std::string& text) { text_ += text; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

uint16_t narrow16(uint64_t value) {
  DETENT_CHECK(value <= 0xffff, "{}", value);
  return static_cast<uint16_t>(value);
}

/// Zip's extra field "FB" with filler, as PyTorch pads: the data then begin at a multiple of kAlignment.
std::string padding_field(uint64_t data_offset_without) {
  const uint64_t begin = data_offset_without + 4;
  const uint64_t filler = (kDataAlignment - begin % kDataAlignment) % kDataAlignment;
  Record record;
  record.append(std::string("FB"));
  record.append(narrow16(filler));
  record.append(std::string(filler, 'Z'));
  return record.text();
}

}  // namespace

ZipWriter::ZipWriter(const std::filesystem::path& path, uint64_t zip64_from)
    : file_(path), zip64_from_(zip64_from) {
  DETENT_CHECK(zip64_from <= kZip64From, "{}", zip64_from);
}

void ZipWriter::add(const std::string& name, std::string_view text) {
  add(name, std::as_bytes(std::span(text)));
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> bytes) {
  DETENT_CHECK(name.size() <= kMaxName, "a name of {} bytes", name.size());
  const auto crc =
      static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  const uint64_t size = bytes.size();
  const bool large = size >= zip64_from_;
  entries_.push_back({name, file_.position(), size, crc});
  std::string extra = large ? Record(kWrittenZip64Field, uint16_t{16}, size, size).text() : "";
  extra += padding_field(file_.position() + 30 + name.size() + extra.size());
  const uint32_t size32 = large ? kWrittenIn64 : static_cast<uint32_t>(size);
  const Record header(uint32_t{0x04034b50}, large ? kVersion64 : kVersion, kUtf8Name, uint16_t{0}, kDate, crc,
                      size32, size32, narrow16(name.size()), narrow16(extra.size()));
  file_.write(header.text());
  file_.write(name);
  file_.write(extra);
  file_.write(bytes);
}

void ZipWriter::write_directory_entry(const Entry& entry) {
  const bool large = entry.size >= zip64_from_;
  const bool far = entry.header_offset >= zip64_from_;
  Record values;
  if (large) values = Record(entry.size, entry.size);
  if (far) values.append(entry.header_offset);
  Record extra;
  if (large || far) {
    extra = Record(kWrittenZip64Field, narrow16(values.text().size()));
    extra.append(values.text());
  }
  const uint16_t version = large || far ? kVersion64 : kVersion;
  const uint32_t size32 = large ? kWrittenIn64 : static_cast<uint32_t>(entry.size);
  const Record header(uint32_t{0x02014b50}, version, version, kUtf8Name, uint16_t{0}, kDate, entry.crc,
                      size32, size32, narrow16(entry.name.size()), narrow16(extra.text().size()), uint16_t{0},
                      uint16_t{0}, uint16_t{0}, uint32_t{0},
                      far ? kWrittenIn64 : static_cast<uint32_t>(entry.header_offset));
  file_.write(header.text());
  file_.write(entry.name);
  file_.write(extra.text());
}

void ZipWriter::write_end(uint64_t directory_offset) {
  const uint64_t bytes = file_.position() - directory_offset;
  const uint64_t count = entries_.size();
  const bool large = directory_offset >= zip64_from_ || bytes >= zip64_from_ || count >= 0xffff;
  if (large) {
    const uint64_t offset = file_.position();
    file_.write(Record(uint32_t{0x06064b50}, uint64_t{44}, kVersion64, kVersion64, uint32_t{0}, uint32_t{0},
                       count, count, bytes, directory_offset)
                    .text());
    file_.write(Record(uint32_t{0x07064b50}, uint32_t{0}, offset, uint32_t{1}).text());
  }
  const uint16_t count16 = large ? uint16_t{0xffff} : narrow16(count);
  file_.write(Record(uint32_t{0x06054b50}, uint16_t{0}, uint16_t{0}, count16, count16,
                     large ? kWrittenIn64 : static_cast<uint32_t>(bytes),
                     large ? kWrittenIn64 : static_cast<uint32_t>(directory_offset), uint16_t{0})
                  .text());
}

void ZipWriter::commit() {
  const uint64_t directory_offset = file_.position();
  for (const Entry& entry : entries_) write_directory_entry(entry);
  write_end(directory_offset);
  file_.commit();
}

}  // namespace detent
