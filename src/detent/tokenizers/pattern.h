#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detent/tokenizers/json_object.h"

namespace detent {

/// A regular expression as tokenizers use them (oniguruma's Ruby syntax, characters by Unicode), matched by
/// backtracking in the order of its alternatives. There are: literals, escapes, `.`, sets with ranges,
/// properties (\p{L}, \p{Lu}, \p{Han}, ...), \s \d \w and their negations, groups (?:...), (...), (?i:...),
/// (?=...), (?!...), (?>...), `|`, `^`, `$`, and ?, *, +, {n,m}, greedy, lazy or possessive. Anything else
/// throws Error with its position.
class Pattern {
 public:
  explicit Pattern(std::string_view text);
  /// Matches `text` itself.
  static Pattern literal(std::string_view text);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  struct Match {
    size_t begin;
    size_t end;
  };
  /// The first match that begins at `from` or later, in valid UTF-8.
  std::optional<Match> find(std::string_view text, size_t from) const;
  /// All of them, from left to right; no empty one right after another.
  std::vector<Match> find_all(std::string_view text) const;

 private:
  struct Program;
  explicit Pattern(std::unique_ptr<const Program> program);
  std::unique_ptr<const Program> program_;
};

/// The field "pattern" of an object: {"String": ...} or {"Regex": ...}.
std::shared_ptr<const Pattern> pattern_field(const JsonObject& object);

/// A field of one character.
char32_t character_field(const JsonObject& object, std::string_view key);

}  // namespace detent
