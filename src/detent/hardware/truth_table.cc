#include "detent/hardware/truth_table.h"

#include <algorithm>
#include <array>

namespace detent {
namespace {

/// `entry` with a bit of that value put in at a place.
size_t with_bit(size_t entry, int place, bool value) {
  const size_t below = entry & ((size_t{1} << place) - 1);
  return (entry >> place << (place + 1)) | (size_t{value} << place) | below;
}

/// The 32 entries of a word in which an input has the value, next to each other.
uint64_t half_of(uint64_t word, int input, bool value) {
  // Where bit `input` of the place is 0.
  constexpr std::array<uint64_t, 6> kPlaces = {0x5555555555555555, 0x3333333333333333, 0x0f0f0f0f0f0f0f0f,
                                               0x00ff00ff00ff00ff, 0x0000ffff0000ffff, 0x00000000ffffffff};
  const auto first = static_cast<size_t>(input);
  word = (value ? word >> (1U << first) : word) & kPlaces[first];
  for (size_t k = first; k < 5; ++k) word = (word | word >> (1U << k)) & kPlaces[k + 1];
  return word;
}

template <class Operation>
std::vector<uint64_t> combined(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b,
                               Operation operation) {
  std::vector<uint64_t> result(a.size());
  std::ranges::transform(a, b, result.begin(), operation);
  return result;
}

}  // namespace

TruthTable TruthTable::cofactor(int input, bool value) const {
  TruthTable result(inputs_ - 1);
  if (input >= 6) {
    const size_t run = size_t{1} << (input - 6);  // words with one value of the input
    for (size_t i = 0; i < result.words_.size(); ++i)
      result.words_[i] = words_[i / run * 2 * run + (value ? run : 0) + i % run];
    return result;
  }
  for (size_t i = 0; i < words_.size(); ++i)
    result.words_[i / 2] |= half_of(words_[i], input, value) << (i % 2 * 32);
  return result;
}

TruthTable TruthTable::joined(int from, int to, bool inverted) const {
  TruthTable result(inputs_ - 1);
  const int place = to > from ? to - 1 : to;
  for (size_t i = 0; i < result.entry_count(); ++i) {
    const bool value = ((i >> place & 1) != 0) != inverted;
    if (get(with_bit(i, from, value))) result.set(i);
  }
  return result;
}

TruthTable TruthTable::operator|(const TruthTable& other) const {
  TruthTable result(inputs_);
  result.words_ = combined(words_, other.words_, [](uint64_t a, uint64_t b) { return a | b; });
  return result;
}

TruthTable TruthTable::operator&(const TruthTable& other) const {
  TruthTable result(inputs_);
  result.words_ = combined(words_, other.words_, [](uint64_t a, uint64_t b) { return a & b; });
  return result;
}

TruthTable TruthTable::operator^(const TruthTable& other) const {
  TruthTable result(inputs_);
  result.words_ = combined(words_, other.words_, [](uint64_t a, uint64_t b) { return a ^ b; });
  return result;
}

TruthTable TruthTable::operator~() const {
  TruthTable result(inputs_);
  std::ranges::transform(words_, result.words_.begin(), [](uint64_t word) { return ~word; });
  result.words_.back() &= last_word_mask();
  return result;
}

bool TruthTable::is_zero() const {
  return std::ranges::all_of(words_, [](uint64_t word) { return word == 0; });
}

}  // namespace detent
