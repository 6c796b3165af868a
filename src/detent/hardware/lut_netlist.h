#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace detent {

/// Logic as 6-input look-up tables. A bit is an input, the constant 0, or what a table gives; a literal is a
/// bit or its inverse, which costs nothing where tables read it. Equal tables of equal inputs are one.
class LutNetlist {
 public:
  using Bit = uint32_t;
  using Literal = uint32_t;
  static constexpr int kInputs = 6;
  static constexpr Bit kZero = 0;
  static constexpr Literal kFalse = 0;
  static constexpr Literal kTrue = 1;

  struct Lut {
    Bit bit;
    uint64_t table;  // entry i where bit k of i is input k
    std::vector<Bit> inputs;
  };

  explicit LutNetlist(size_t inputs) : inputs_(static_cast<uint32_t>(inputs)) {}

  static Literal literal(Bit bit, bool inverted = false) { return 2 * bit + (inverted ? 1 : 0); }
  static Bit bit_of(Literal literal) { return literal / 2; }
  static bool is_inverted(Literal literal) { return literal % 2 != 0; }
  static Literal inverse(Literal literal) { return literal ^ 1; }

  Literal input(size_t index) const { return literal(static_cast<Bit>(index + 1)); }
  bool is_input(Bit bit) const { return bit != kZero && bit <= inputs_; }
  size_t input_index(Bit bit) const { return bit - 1; }
  size_t input_count() const { return inputs_; }

  /// The function of at most 6 literals; without a table where it is a constant, a literal, or there already.
  Literal lut(uint64_t table, std::vector<Literal> inputs);

  /// Each reads only bits of earlier ones.
  const std::vector<Lut>& luts() const { return luts_; }
  /// Tables on the longest way to each of the literals, at most.
  int depth(const std::vector<Literal>& outputs) const;

  /// The same outputs with fewer tables: without those that nothing reads, and with those that fit into all
  /// of their readers put there.
  LutNetlist packed(std::vector<Literal>& outputs) const;

 private:
  uint32_t inputs_;
  std::vector<Lut> luts_;
  std::map<std::pair<uint64_t, std::vector<Bit>>, Bit> bits_;
};

}  // namespace detent
