#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "detent/core/error.h"

namespace detent {

static_assert(std::endian::native == std::endian::little, "the file formats read here are little endian");

/// Reads untrusted bytes; reading past the end throws Error naming the file.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }
  const std::string& name() const { return name_; }

  std::span<const std::byte> take(size_t count) {
    if (count > remaining()) fail("{}: cut off at byte {}: {} more expected", name_, bytes_.size(), count);
    const auto result = bytes_.subspan(position_, count);
    position_ += count;
    return result;
  }

  /// A little-endian number.
  template <std::integral T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::string_view text(size_t count) {
    const auto bytes = take(count);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  /// Up to the next newline, which is skipped.
  std::string_view line() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + position_, remaining());
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) fail("{}: cut off in a line of text", name_);
    position_ += end + 1;
    return rest.substr(0, end);
  }

 private:
  std::span<const std::byte> bytes_;
  std::string name_;
  size_t position_ = 0;
};

}  // namespace detent
