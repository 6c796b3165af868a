#include "detent/files/gzip.h"

#define ZLIB_CONST
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "detent/core/error.h"
#include "detent/files/file.h"

namespace detent {
namespace {

constexpr std::byte kGzipMagic[] = {std::byte{0x1f}, std::byte{0x8b}};

// zlib counts in 32 bits.
constexpr size_t kLargestStep = size_t{1} << 30;

// Deflate's densest code: two bits (length 258 and its distance, one bit each) stand for 258 bytes.
constexpr uint64_t kLargestRatio = 258 * 8 / 2;

bool has_magic(std::span<const std::byte> bytes) {
  return bytes.size() >= std::size(kGzipMagic) &&
         std::equal(std::begin(kGzipMagic), std::end(kGzipMagic), bytes.begin());
}

std::string read_all(GzipReader& reader, uint64_t limit) {
  constexpr size_t kFirstStep = size_t{1} << 16;
  DETENT_CHECK(limit < std::numeric_limits<size_t>::max(), "limit {}", limit);
  std::string text;
  size_t size = 0;
  while (true) {
    // One byte beyond the limit tells "too much" from "just enough".
    const size_t wanted = std::min(std::max(kFirstStep, 2 * size), limit + 1);
    text.resize(wanted);
    size += reader.read(std::as_writable_bytes(std::span(text)).subspan(size));
    if (size > limit) fail("{}: holds more than the {} bytes that are allowed", reader.name(), limit);
    if (size < wanted) break;
  }
  text.resize(size);
  return text;
}

}  // namespace

/// zlib's state, initialised for gzip members.
struct GzipReader::Stream {
  Stream() {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    const int status = inflateInit2(&zlib, kGzipOnly);
    DETENT_CHECK(status == Z_OK, "inflateInit2 returned {}", status);
  }
  ~Stream() { inflateEnd(&zlib); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  z_stream zlib{};
  bool inside_member = true;
};

GzipReader::GzipReader(const std::filesystem::path& path) : name_(path.string()) {
  auto file = map_file(path);
  unread_ = file->bytes();
  file_ = std::move(file);
  start();
}

GzipReader::GzipReader(std::span<const std::byte> bytes, std::string name)
    : name_(std::move(name)), unread_(bytes) {
  start();
}

GzipReader::~GzipReader() = default;

void GzipReader::start() {
  if (has_magic(unread_)) stream_ = std::make_unique<Stream>();
}

size_t GzipReader::read(std::span<std::byte> target) {
  if (stream_ == nullptr) return read_plain(target);
  size_t done = 0;
  while (done < target.size() && stream_->inside_member) {
    done += inflate_some(target.subspan(done));
  }
  return done;
}

uint64_t GzipReader::remaining_at_most() const {
  if (stream_ == nullptr) return unread_.size();
  // zlib may hold bits of input that it took and the rest of one match.
  constexpr uint64_t kHeldInput = sizeof(uint64_t);
  constexpr uint64_t kLongestMatch = 258;
  return (unread_.size() + kHeldInput) * kLargestRatio + kLongestMatch;
}

size_t GzipReader::read_plain(std::span<std::byte> target) {
  const size_t count = std::min(target.size(), unread_.size());
  if (count > 0) std::memcpy(target.data(), unread_.data(), count);
  unread_ = unread_.subspan(count);
  decompressed_ += count;
  return count;
}

/// One call of zlib; returns the number of bytes it wrote to `target`, possibly none at the end of a member.
size_t GzipReader::inflate_some(std::span<std::byte> target) {
  z_stream& zlib = stream_->zlib;
  const size_t in = std::min(unread_.size(), kLargestStep);
  const size_t out = std::min(target.size(), kLargestStep);
  zlib.next_in = reinterpret_cast<const Bytef*>(unread_.data());
  zlib.avail_in = static_cast<uInt>(in);
  zlib.next_out = reinterpret_cast<Bytef*>(target.data());
  zlib.avail_out = static_cast<uInt>(out);
  const int status = inflate(&zlib, Z_NO_FLUSH);
  unread_ = unread_.subspan(in - zlib.avail_in);
  const size_t written = out - zlib.avail_out;
  decompressed_ += written;
  if (status == Z_STREAM_END) {
    end_member();
  } else if (status == Z_BUF_ERROR) {
    fail("{}: the gzip stream is truncated (it ends after {} decompressed bytes)", name_, decompressed_);
  } else if (status != Z_OK) {
    fail("{}: the gzip stream is corrupt after {} decompressed bytes: {}", name_, decompressed_,
         zlib.msg != nullptr ? zlib.msg : zError(status));
  }
  return written;
}

void GzipReader::end_member() {
  stream_->inside_member = false;
  if (unread_.empty()) return;
  if (!has_magic(unread_)) {
    fail("{}: {} bytes that are no gzip data follow the gzip stream", name_, unread_.size());
  }
  inflateReset(&stream_->zlib);
  stream_->inside_member = true;
}

std::string read_gzip(std::span<const std::byte> bytes, const std::string& name, uint64_t limit) {
  GzipReader reader(bytes, name);
  return read_all(reader, limit);
}

std::string gzip_text(std::string_view text) {
  constexpr int kWindowBits = 15;
  constexpr int kGzip = 16;
  constexpr int kMemory = 8;
  constexpr size_t kPart = size_t{1} << 16;
  z_stream stream{};
  const int begun =
      deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kWindowBits + kGzip, kMemory, Z_DEFAULT_STRATEGY);
  DETENT_CHECK(begun == Z_OK, "deflateInit2 gives {}", begun);
  std::string result;
  const auto compress = [&](std::string_view part, int flush) {
    // zlib does not write to its input.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
    stream.avail_in = static_cast<uInt>(part.size());
    do {
      Bytef room[kPart];
      stream.next_out = room;
      stream.avail_out = kPart;
      deflate(&stream, flush);
      result.append(reinterpret_cast<const char*>(room), kPart - stream.avail_out);
    } while (stream.avail_out == 0);
  };
  for (; text.size() > kPart; text.remove_prefix(kPart)) compress(text.substr(0, kPart), Z_NO_FLUSH);
  compress(text, Z_FINISH);
  deflateEnd(&stream);
  return result;
}

}  // namespace detent
