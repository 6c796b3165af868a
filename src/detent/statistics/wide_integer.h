#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "detent/statistics/state_bytes.h"

namespace detent {

__extension__ using Float128 = __float128;
__extension__ using UInt128 = unsigned __int128;

/// An unsigned integer of 64 * kWords bits that holds every bit of a sum of powers of float32 values, so that
/// sums do not round and order does not matter (Kulisch's exact accumulator: U. Kulisch, W. Miranker, "The
/// arithmetic of the digital computer", SIAM Review 28, 1986).
template <size_t kWords>
class WideInteger {
 public:
  WideInteger() = default;
  explicit WideInteger(uint64_t value) : words_{value} {}

  /// Adds value * 2^shift; the sum must stay below 2^(64 * kWords).
  void add(uint64_t value, unsigned shift) {
    const UInt128 shifted = static_cast<UInt128>(value) << (shift % 64);
    const size_t word = shift / 64;
    const bool carry = add_word(word, static_cast<uint64_t>(shifted));
    const auto high = static_cast<uint64_t>(shifted >> 64);
    // Cannot wrap: a high half has its top bit clear.
    if (high + static_cast<uint64_t>(carry) > 0) propagate(word + 1, high + static_cast<uint64_t>(carry));
  }

  void add_sum(UInt128 value, unsigned shift) {
    add(static_cast<uint64_t>(value), shift);
    if (const auto high = static_cast<uint64_t>(value >> 64); high > 0) add(high, shift + 64);
  }

  void merge(const WideInteger& other) {
    uint64_t carry = 0;
    for (size_t i = 0; i < kWords; ++i) {
      const UInt128 sum = static_cast<UInt128>(words_[i]) + other.words_[i] + carry;
      words_[i] = static_cast<uint64_t>(sum);
      carry = static_cast<uint64_t>(sum >> 64);
    }
  }

  /// this - other, for this >= other.
  WideInteger minus(const WideInteger& other) const {
    WideInteger difference;
    uint64_t borrow = 0;
    for (size_t i = 0; i < kWords; ++i) {
      const UInt128 word = static_cast<UInt128>(words_[i]) - other.words_[i] - borrow;
      difference.words_[i] = static_cast<uint64_t>(word);
      borrow = static_cast<uint64_t>(word >> 64) & 1U;
    }
    return difference;
  }

  /// this * other, which must stay below 2^(64 * kResult).
  template <size_t kResult, size_t kOther>
  WideInteger<kResult> times(const WideInteger<kOther>& other) const {
    WideInteger<kResult> product;
    for (size_t i = 0; i < kWords; ++i) {
      if (words_[i] == 0) continue;
      uint64_t carry = 0;
      for (size_t j = 0; i + j < kResult; ++j) {
        const uint64_t factor = j < kOther ? other.words_[j] : 0;
        const UInt128 sum = static_cast<UInt128>(words_[i]) * factor + product.words_[i + j] + carry;
        product.words_[i + j] = static_cast<uint64_t>(sum);
        carry = static_cast<uint64_t>(sum >> 64);
      }
    }
    return product;
  }

  bool operator<(const WideInteger& other) const {
    for (size_t i = kWords; i-- > 0;) {
      if (words_[i] != other.words_[i]) return words_[i] < other.words_[i];
    }
    return false;
  }

  /// The integer times 2^(-149 power), in the 113 bits of Float128: 2^-149 is the smallest float32.
  Float128 scaled(int power) const {
    Float128 value = 0;
    for (size_t i = kWords; i-- > 0;) value = value * 0x1p64 + words_[i];
    for (; power > 0; --power) value *= 0x1p-149;
    return value;
  }

  void write(StateWriter& writer) const {
    for (const uint64_t word : words_) writer.number(word);
  }
  void read(StateReader& reader) {
    for (uint64_t& word : words_) word = reader.number<uint64_t>();
  }

 private:
  template <size_t>
  friend class WideInteger;

  bool add_word(size_t word, uint64_t value) {
    words_[word] += value;
    return words_[word] < value;
  }
  void propagate(size_t word, uint64_t value) {
    for (bool carry = add_word(word, value); carry && ++word < kWords;) carry = add_word(word, 1);
  }

  std::array<uint64_t, kWords> words_{};
};

}  // namespace detent
