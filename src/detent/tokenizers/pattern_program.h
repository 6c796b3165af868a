#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "detent/tokenizers/unicode.h"

namespace detent {

/// One thing that a set of characters names.
struct SetTerm {
  enum class Kind : uint8_t { kRange, kCategories, kFlag, kSetWord, kScript, kAny };
  Kind kind = Kind::kAny;
  bool negated = false;
  char32_t first = 0;
  char32_t last = 0;
  uint32_t categories = 0;  // a bit each
  CharacterFlag flag = kIsSpace;
  Script script = Script::kOther;

  bool matches(char32_t code) const;
};

/// Characters that match any of its terms, or none.
class CharacterSet {
 public:
  CharacterSet(std::vector<SetTerm> terms, bool negated);
  bool matches(char32_t code) const {
    return code < 128 ? (ascii_[code / 64] >> (code % 64) & 1) != 0 : matches_slowly(code);
  }

 private:
  bool matches_slowly(char32_t code) const;

  std::vector<SetTerm> terms_;
  bool negated_;
  std::array<uint64_t, 2> ascii_{};
};

enum class Repeat : uint8_t { kGreedy, kLazy, kPossessive };

struct PatternStep {
  enum class Kind : uint8_t {
    kSet,     // one character of sets[set]
    kLoop,    // `least` to `most` characters of sets[set]
    kSplit,   // goes on at `target`, or after this step where that fails; reversed where `lazy`
    kJump,    // goes on at `target`
    kLook,    // whether what follows, to `target`, matches here; `negated`: does not
    kAtomic,  // what follows, to `target`, as it matches first
    kLineBegin,
    kLineEnd,
    kMatch,  // the end of the pattern, of a look-ahead or of an atomic group
  };
  Kind kind = Kind::kMatch;
  uint32_t set = 0;
  uint32_t target = 0;
  uint32_t least = 0;
  uint32_t most = 0;
  Repeat repeat = Repeat::kGreedy;
  bool negated = false;
};

struct PatternProgram {
  std::string literal;  // where the pattern is nothing else
  std::vector<PatternStep> steps;
  std::vector<CharacterSet> sets;
  std::array<bool, 256> first_bytes{};  // with which a match may begin
  bool may_be_empty = false;
};

PatternProgram compile_pattern(std::string_view text);

}  // namespace detent
