#include "detent/datasets/tar.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "detent/core/error.h"

namespace detent {
namespace {

constexpr size_t kTarBlock = 512;

using TarHeader = std::array<char, kTarBlock>;

std::string_view field(const TarHeader& header, size_t offset, size_t size) {
  const std::string_view text(header.data() + offset, size);
  return text.substr(0, text.find('\0'));
}

/// Octal digits between spaces or zeros.
uint64_t octal_number(const TarHeader& header, size_t offset, size_t size, const std::string& where) {
  uint64_t value = 0;
  for (const char c : field(header, offset, size)) {
    if (c == ' ') continue;
    if (c < '0' || c > '7')
      fail("{}: damaged tar archive: \"{}\" is no number", where, field(header, offset, size));
    value = value * 8 + static_cast<uint64_t>(c - '0');  // at most 12 digits
  }
  return value;
}

/// The sum of all bytes, its own field taken as spaces.
void check_sum(const TarHeader& header, const std::string& where) {
  constexpr size_t kOffset = 148;
  constexpr size_t kSize = 8;
  uint64_t sum = kSize * ' ';
  for (size_t i = 0; i < header.size(); ++i) {
    if (i < kOffset || i >= kOffset + kSize) sum += static_cast<unsigned char>(header[i]);
  }
  if (sum != octal_number(header, kOffset, kSize, where))
    fail("{}: damaged tar archive: a header has a wrong sum", where);
}

void check_name(const std::string& name, const std::string& where) {
  const std::filesystem::path path(name);
  const bool escapes = std::ranges::any_of(path, [](const auto& part) { return part == ".."; });
  if (name.empty() || path.is_absolute() || escapes) {
    fail("{}: refused: the name \"{}\" leads out of the folder", where, name);
  }
}

}  // namespace

TarReader::TarReader(const std::filesystem::path& path, uint64_t limit) : reader_(path), limit_(limit) {}

bool TarReader::next(TarMember& member) {
  constexpr char kFolder = '5';
  for (;;) {
    skip(unread_ + padding_);
    unread_ = padding_ = 0;
    char type = 0;
    if (!read_header(member, type)) return false;
    if (type == kFolder) continue;
    if (type != '0' && type != '\0') {
      fail("{}: refused: \"{}\" is no regular file but of type '{}' (a link, a device or an extension)",
           reader_.name(), member.name, type);
    }
    if (member.size > limit_) {
      fail("{}: refused: with \"{}\" of {} bytes it unpacks to more than expected", reader_.name(),
           member.name, member.size);
    }
    limit_ -= member.size;
    unread_ = member.size;
    padding_ = (kTarBlock - member.size % kTarBlock) % kTarBlock;
    return true;
  }
}

bool TarReader::read_header(TarMember& member, char& type) {
  TarHeader header{};
  if (reader_.read(std::as_writable_bytes(std::span(header))) != header.size()) {
    fail("{}: damaged tar archive: cut off", reader_.name());
  }
  if (std::ranges::all_of(header, [](char c) { return c == '\0'; })) return false;
  check_sum(header, reader_.name());
  const std::string_view prefix = field(header, 257, 5) == "ustar" ? field(header, 345, 155) : "";
  member.name = fmt::format("{}{}{}", prefix, prefix.empty() ? "" : "/", field(header, 0, 100));
  check_name(member.name, reader_.name());
  member.size = octal_number(header, 124, 12, reader_.name());
  type = header[156];
  return true;
}

size_t TarReader::read(std::span<std::byte> target) {
  const size_t wanted = std::min<uint64_t>(target.size(), unread_);
  if (reader_.read(target.first(wanted)) != wanted) fail("{}: damaged tar archive: cut off", reader_.name());
  unread_ -= wanted;
  return wanted;
}

void TarReader::skip(uint64_t bytes) {
  std::vector<std::byte> buffer(std::min<uint64_t>(bytes, size_t{1} << 16));
  while (bytes > 0) {
    const std::span<std::byte> part(buffer.data(), std::min<uint64_t>(bytes, buffer.size()));
    if (reader_.read(part) != part.size()) fail("{}: damaged tar archive: cut off", reader_.name());
    bytes -= part.size();
  }
}

}  // namespace detent
