#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace detent {

/// A function of bits: entry i is its value where bit k of i is input k. Up to kMostInputs of them.
class TruthTable {
 public:
  static constexpr int kMostInputs = 20;

  /// All 0.
  explicit TruthTable(int inputs) : inputs_(inputs), words_((entry_count() + 63) / 64) {}

  int inputs() const { return inputs_; }
  size_t entry_count() const { return size_t{1} << inputs_; }
  bool get(size_t entry) const { return (words_[entry / 64] >> (entry % 64) & 1) != 0; }
  void set(size_t entry, bool value = true) {
    const uint64_t bit = uint64_t{1} << (entry % 64);
    words_[entry / 64] = value ? words_[entry / 64] | bit : words_[entry / 64] & ~bit;
  }

  /// The function of the other inputs where this one has the value.
  TruthTable cofactor(int input, bool value) const;
  /// Where input `from` is what input `to` is, or its inverse: a function without `from`.
  TruthTable joined(int from, int to, bool inverted) const;
  TruthTable operator|(const TruthTable& other) const;
  TruthTable operator&(const TruthTable& other) const;
  TruthTable operator^(const TruthTable& other) const;
  TruthTable operator~() const;
  bool is_zero() const;
  /// The entries of at most 6 inputs.
  uint64_t word() const { return words_.front(); }
  // clang-tidy 14 takes the 0 that results of <=> are compared with for a pointer.
  auto operator<=>(const TruthTable&) const = default;  // NOLINT(modernize-use-nullptr)

 private:
  uint64_t last_word_mask() const { return inputs_ >= 6 ? ~uint64_t{0} : (uint64_t{1} << entry_count()) - 1; }

  int inputs_;
  std::vector<uint64_t> words_;
};

}  // namespace detent
