#include "detent/tokenizers/pattern.h"

#include <cstring>

#include "detent/core/error.h"
#include "detent/tokenizers/pattern_program.h"
#include "detent/tokenizers/unicode.h"

namespace detent {

struct Pattern::Program : PatternProgram {};

namespace {

constexpr size_t kNoMatch = std::string_view::npos;
// More than any pattern in use needs: what does not end in time linear in the text is refused.
constexpr uint64_t kMostBacktracks = 10'000'000;
constexpr uint64_t kMostBacktracksAByte = 1'000;

/// Where to go on when what followed has failed.
struct Choice {
  uint32_t step;
  bool is_loop;
  size_t position;  // of a loop: where it ended
  size_t bound;     // of a greedy loop: where it may end at the earliest; of a lazy one: how many more
};

class Matcher {
 public:
  Matcher(const PatternProgram& program, std::string_view text)
      : program_(program),
        text_(text),
        backtracks_left_(kMostBacktracks + kMostBacktracksAByte * text.size()) {}

  /// The end of the match that begins at `position`, or kNoMatch.
  size_t match(uint32_t step, size_t position) {
    const size_t base = choices_.size();
    for (;;) {
      const bool goes_on = advance(step, position);
      if (goes_on && program_.steps[step].kind == PatternStep::Kind::kMatch) {
        choices_.resize(base);
        return position;
      }
      if (!goes_on && !back(base, step, position)) return kNoMatch;
    }
  }

 private:
  bool set_matches(uint32_t set, size_t& position) const {
    if (position >= text_.size()) return false;
    size_t next = position;
    if (!program_.sets[set].matches(next_character(text_, next))) return false;
    position = next;
    return true;
  }

  /// Runs steps until one fails (false) or the end is reached.
  bool advance(uint32_t& step, size_t& position) {
    using Kind = PatternStep::Kind;
    for (;;) {
      const PatternStep& current = program_.steps[step];
      switch (current.kind) {
        case Kind::kMatch:
          return true;
        case Kind::kSet:
          if (!set_matches(current.set, position)) return false;
          break;
        case Kind::kLoop:
          if (!loop(step, position)) return false;
          break;
        case Kind::kSplit:
          if (current.repeat == Repeat::kLazy) {
            choices_.push_back({step + 1, false, position, 0});
            step = current.target;
          } else {
            choices_.push_back({current.target, false, position, 0});
            ++step;
          }
          continue;
        case Kind::kJump:
          step = current.target;
          continue;
        case Kind::kLook:
          if ((match(step + 1, position) == kNoMatch) != current.negated) return false;
          step = current.target;
          continue;
        case Kind::kAtomic:
          position = match(step + 1, position);
          if (position == kNoMatch) return false;
          step = current.target;
          continue;
        case Kind::kLineBegin:
          if (position > 0 && (text_[position - 1] != '\n' || position == text_.size())) return false;
          break;
        case Kind::kLineEnd:
          if (position < text_.size() && text_[position] != '\n') return false;
          break;
      }
      ++step;
    }
  }

  bool loop(uint32_t step, size_t& position) {
    const PatternStep& current = program_.steps[step];
    uint32_t count = 0;
    for (; count < current.least; ++count)
      if (!set_matches(current.set, position)) return false;
    if (current.repeat == Repeat::kLazy) {
      if (count < current.most) choices_.push_back({step, true, position, current.most - count});
      return true;
    }
    const size_t earliest = position;
    while (count < current.most && set_matches(current.set, position)) ++count;
    if (current.repeat == Repeat::kGreedy && position > earliest)
      choices_.push_back({step, true, position, earliest});
    return true;
  }

  /// Takes the last choice back; false where none is left above `base`.
  bool back(size_t base, uint32_t& step, size_t& position) {
    while (choices_.size() > base) {
      if (backtracks_left_-- == 0) fail("a regular expression of the tokenizer takes too long on this text");
      Choice& choice = choices_.back();
      step = choice.step;
      position = choice.position;
      if (!choice.is_loop) {
        choices_.pop_back();
        return true;
      }
      const PatternStep& current = program_.steps[step++];
      if (current.repeat == Repeat::kGreedy) {
        do {
          --position;
        } while ((static_cast<unsigned char>(text_[position]) & 0xC0U) == 0x80);
        choice.position = position;
        if (position == choice.bound) choices_.pop_back();
        return true;
      }
      if (set_matches(current.set, position)) {
        choice.position = position;
        if (--choice.bound == 0) choices_.pop_back();
        return true;
      }
      choices_.pop_back();
    }
    return false;
  }

  const PatternProgram& program_;
  std::string_view text_;
  std::vector<Choice> choices_;
  uint64_t backtracks_left_;
};

std::optional<Pattern::Match> find_with(const PatternProgram& program, Matcher& matcher,
                                        std::string_view text, size_t from) {
  if (!program.literal.empty()) {
    const size_t begin = text.find(program.literal, from);
    if (begin == std::string_view::npos) return std::nullopt;
    return Pattern::Match{begin, begin + program.literal.size()};
  }
  for (size_t begin = from; begin <= text.size();) {
    const bool at_end = begin == text.size();
    if (program.may_be_empty || (!at_end && program.first_bytes[static_cast<unsigned char>(text[begin])])) {
      const size_t end = matcher.match(0, begin);
      if (end != kNoMatch) return Pattern::Match{begin, end};
    }
    begin += at_end ? 1 : character_length(text[begin]);
  }
  return std::nullopt;
}

}  // namespace

Pattern::Pattern(std::string_view text)
    : program_(std::make_unique<const Program>(Program{compile_pattern(text)})) {}

Pattern::Pattern(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

Pattern Pattern::literal(std::string_view text) {
  Program program;
  program.literal = text;
  program.steps.emplace_back();  // an empty text matches everywhere
  program.may_be_empty = true;
  return Pattern(std::make_unique<const Program>(std::move(program)));
}

std::optional<Pattern::Match> Pattern::find(std::string_view text, size_t from) const {
  Matcher matcher(*program_, text);
  return find_with(*program_, matcher, text, from);
}

std::vector<Pattern::Match> Pattern::find_all(std::string_view text) const {
  std::vector<Match> matches;
  Matcher matcher(*program_, text);
  size_t from = 0;
  size_t last_end = kNoMatch;
  while (from <= text.size()) {
    const std::optional<Match> match = find_with(*program_, matcher, text, from);
    if (!match) break;
    if (match->begin == match->end && match->end == last_end) {
      from += from < text.size() ? character_length(text[from]) : 1;
      continue;
    }
    from = last_end = match->end;
    matches.push_back(*match);
  }
  return matches;
}

std::shared_ptr<const Pattern> pattern_field(const JsonObject& object) {
  const JsonObject pattern = object.object("pattern");
  try {
    if (pattern.find("String") != nullptr)
      return std::make_shared<const Pattern>(Pattern::literal(pattern.text("String")));
    if (pattern.find("Regex") != nullptr)
      return std::make_shared<const Pattern>(Pattern(pattern.text("Regex")));
  } catch (const Error& error) {
    fail("{}: {}", pattern.name(), error.what());
  }
  fail("{}: \"String\" or \"Regex\" expected", pattern.name());
}

char32_t character_field(const JsonObject& object, std::string_view key) {
  const std::string text = object.text(key);
  const std::u32string characters = to_characters(text);
  if (characters.size() != 1) fail("{}: one character expected, not \"{}\"", object.at(key), text);
  return characters[0];
}

}  // namespace detent
