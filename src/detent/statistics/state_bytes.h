#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace detent {

/// Appends numbers to a state, little-endian.
class StateWriter {
 public:
  template <class T>
  requires std::unsigned_integral<T>
  void number(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<std::byte>(value & 0xFFU));
      if constexpr (sizeof(T) > 1) value >>= 8;
    }
  }
  void count(int64_t value) { number(static_cast<uint64_t>(value)); }
  void real(float value) { number(std::bit_cast<uint32_t>(value)); }
  /// 7 bits a byte, low ones first.
  void compact(uint64_t value);
  void text(std::string_view value);
  /// The length, then the values.
  void reals(std::span<const float> values);

  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads the output of StateWriter. Throws Error if the state ends early; allocates no more than the bytes
/// left.
class StateReader {
 public:
  explicit StateReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  requires std::unsigned_integral<T> T number() {
    T value = 0;
    const auto source = take(sizeof(T));
    for (size_t i = 0; i < sizeof(T); ++i) {
      value = static_cast<T>(value |
                             static_cast<T>(static_cast<T>(std::to_integer<uint8_t>(source[i])) << (8 * i)));
    }
    return value;
  }
  /// From 0 to 2^56, so that sums of several do not overflow.
  int64_t count();
  float real() { return std::bit_cast<float>(number<uint32_t>()); }
  uint64_t compact();
  std::string text();
  std::vector<float> reals();
  /// The next bytes, raw.
  std::span<const std::byte> take(size_t count);
  /// Throws Error unless `count` items of at least `bytes_each` bytes can follow.
  void expect(uint64_t count, size_t bytes_each) const;

  size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

/// Throws the Error "statistics state: {what}".
[[noreturn]] void bad_state(std::string_view what);

}  // namespace detent
