#include "detent/hardware/truth_table.h"

#include <algorithm>

namespace detent {
namespace {

/// `entry` with a bit of that value put in at a place.
size_t with_bit(size_t entry, int place, bool value) {
  const size_t below = entry & ((size_t{1} << place) - 1);
  return (entry >> place << (place + 1)) | (size_t{value} << place) | below;
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
  for (size_t i = 0; i < result.entry_count(); ++i) {
    if (get(with_bit(i, input, value))) result.set(i);
  }
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
