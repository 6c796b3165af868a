#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "detent/core/error.h"
#include "detent/tokenizers/pattern_program.h"

namespace detent {

bool SetTerm::matches(char32_t code) const {
  bool result = true;
  switch (kind) {
    case Kind::kRange:
      result = code >= first && code <= last;
      break;
    case Kind::kCategories:
      result = (categories >> static_cast<unsigned>(properties_of(code).category) & 1U) != 0;
      break;
    case Kind::kFlag:
      result = properties_of(code).has(flag);
      break;
    case Kind::kSetWord:  // Oniguruma leaves out ² ³ ¹ ¼ ½ ¾ within [...] alone
      result = properties_of(code).has(kIsPatternWord) &&
               (code > 0xBE || properties_of(code).category != Category::kNo);
      break;
    case Kind::kScript:
      result = properties_of(code).script == script;
      break;
    case Kind::kAny:
      break;
  }
  return result != negated;
}

CharacterSet::CharacterSet(std::vector<SetTerm> terms, bool negated)
    : terms_(std::move(terms)), negated_(negated) {
  for (char32_t code = 0; code < 128; ++code)
    if (matches_slowly(code)) ascii_[code / 64] |= uint64_t{1} << (code % 64);
}

bool CharacterSet::matches_slowly(char32_t code) const {
  return std::ranges::any_of(terms_, [&](const SetTerm& term) { return term.matches(code); }) != negated_;
}

namespace {

constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();
constexpr size_t kMostSteps = 20'000;
constexpr int kDeepest = 50;
constexpr uint32_t kMostRepeats = 1'000;
constexpr int kMostNestedRepeats = 4;

struct Node {
  enum class Kind : uint8_t {
    kEmpty,
    kSet,
    kSequence,
    kChoice,
    kRepeat,
    kLook,
    kAtomic,
    kLineBegin,
    kLineEnd
  };
  Kind kind = Kind::kEmpty;
  uint32_t set = 0;
  std::vector<Node> parts;
  uint32_t least = 0;
  uint32_t most = 0;
  Repeat repeat = Repeat::kGreedy;
  bool negated = false;
};

bool may_be_empty(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kSet:
      return false;
    case Node::Kind::kSequence:
    case Node::Kind::kAtomic:
      return std::ranges::all_of(node.parts, may_be_empty);
    case Node::Kind::kChoice:
      return std::ranges::any_of(node.parts, may_be_empty);
    case Node::Kind::kRepeat:
      return node.least == 0 || may_be_empty(node.parts[0]);
    case Node::Kind::kEmpty:
    case Node::Kind::kLook:
    case Node::Kind::kLineBegin:
    case Node::Kind::kLineEnd:
      return true;
  }
  return true;
}

struct NamedCategory {
  std::string_view name;
  Category category;
};
using enum Category;
constexpr NamedCategory kCategoryNames[] = {
    {"Lu", kLu}, {"Ll", kLl}, {"Lt", kLt}, {"Lm", kLm}, {"Lo", kLo}, {"Mn", kMn}, {"Mc", kMc}, {"Me", kMe},
    {"Nd", kNd}, {"Nl", kNl}, {"No", kNo}, {"Pc", kPc}, {"Pd", kPd}, {"Ps", kPs}, {"Pe", kPe}, {"Pi", kPi},
    {"Pf", kPf}, {"Po", kPo}, {"Sm", kSm}, {"Sc", kSc}, {"Sk", kSk}, {"So", kSo}, {"Zs", kZs}, {"Zl", kZl},
    {"Zp", kZp}, {"Cc", kCc}, {"Cf", kCf}, {"Co", kCo}, {"Cn", kCn}};

struct NamedScript {
  std::string_view name;
  Script script;
};
constexpr NamedScript kScriptNames[] = {{"Han", Script::kHan},
                                        {"Hiragana", Script::kHiragana},
                                        {"Katakana", Script::kKatakana},
                                        {"Hangul", Script::kHangul},
                                        {"Latin", Script::kLatin},
                                        {"Cyrillic", Script::kCyrillic},
                                        {"Greek", Script::kGreek},
                                        {"Thai", Script::kThai},
                                        {"Arabic", Script::kArabic},
                                        {"Hebrew", Script::kHebrew},
                                        {"Devanagari", Script::kDevanagari}};

class Parser {
 public:
  Parser(std::string_view text, PatternProgram& program) : text_(text), program_(program) {}

  Node parse() {
    Node node = choice(0);
    if (position_ < text_.size()) refuse("\")\" without \"(\"");
    return node;
  }

 private:
  [[noreturn]] void refuse(std::string_view problem) const {
    fail("regular expression \"{}\": {} at character {}", text_, problem, position_ + 1);
  }

  bool at(std::string_view expected) const { return text_.substr(position_).starts_with(expected); }
  bool take(std::string_view expected) {
    if (!at(expected)) return false;
    position_ += expected.size();
    return true;
  }
  char32_t character() {
    if (position_ >= text_.size()) refuse("unexpected end");
    return next_character(text_, position_);
  }

  uint32_t add_set(std::vector<SetTerm> terms, bool negated) {
    program_.sets.emplace_back(std::move(terms), negated);
    return static_cast<uint32_t>(program_.sets.size() - 1);
  }
  Node set_node(std::vector<SetTerm> terms, bool negated = false) {
    Node node;
    node.kind = Node::Kind::kSet;
    node.set = add_set(std::move(terms), negated);
    return node;
  }

  Node choice(int depth) {
    if (depth > kDeepest) refuse("too many groups in groups");
    Node node;
    node.kind = Node::Kind::kChoice;
    do {
      node.parts.push_back(sequence(depth));
    } while (take("|"));
    if (node.parts.size() > 1) return node;
    Node only = std::move(node.parts[0]);
    return only;
  }

  Node sequence(int depth) {
    Node node;
    node.kind = Node::Kind::kSequence;
    while (position_ < text_.size() && !at("|") && !at(")")) {
      const size_t begin = position_;
      Node part = atom(depth);
      int repeats = 0;
      while (repeat(part, begin))
        if (++repeats > kMostNestedRepeats) refuse("too many repetitions of repetitions");
      node.parts.push_back(std::move(part));
    }
    return node;
  }

  Node atom(int depth) {
    if (take("(")) return group(depth);
    if (take("[")) return bracket();
    Node node;
    if (take("^")) return node.kind = Node::Kind::kLineBegin, node;
    if (take("$")) return node.kind = Node::Kind::kLineEnd, node;
    if (take(".")) return set_node({range('\n', '\n')}, true);
    if (take("\\")) return set_node({escape()});
    if (at("*") || at("+") || at("?")) refuse("nothing to repeat");
    return literal(character());
  }

  static SetTerm range(char32_t first, char32_t last) {
    SetTerm term;
    term.kind = SetTerm::Kind::kRange;
    term.first = first;
    term.last = last;
    return term;
  }

  Node literal(char32_t code) {
    std::vector<SetTerm> terms{range(code, code)};
    if (ignores_case_) {
      if (code >= 128) refuse("a character outside ASCII where case is ignored is not supported");
      const char32_t lower = code >= 'A' && code <= 'Z' ? code + 32 : code;
      if (lower >= 'a' && lower <= 'z') terms = {range(lower, lower), range(lower - 32, lower - 32)};
      if (lower == 's') terms.push_back(range(0x17F, 0x17F));    // long s
      if (lower == 'k') terms.push_back(range(0x212A, 0x212A));  // Kelvin sign
      // Two letters that one character (a ligature) may stand for.
      const char before = position_ >= 2 ? static_cast<char>(text_[position_ - 2] | 0x20) : '\0';
      const std::string pair{before, static_cast<char>(lower)};
      for (const std::string_view folded : {"ss", "st", "ff", "fi", "fl"})
        if (pair == folded) refuse("these letters where case is ignored are not supported");
    }
    return set_node(std::move(terms));
  }

  Node group(int depth) {
    Node node;
    const bool case_before = ignores_case_;
    if (take("?:")) {
      node.kind = Node::Kind::kEmpty;
    } else if (take("?i:")) {
      ignores_case_ = true;
    } else if (take("?=")) {
      node.kind = Node::Kind::kLook;
    } else if (take("?!")) {
      node.kind = Node::Kind::kLook;
      node.negated = true;
    } else if (take("?>")) {
      node.kind = Node::Kind::kAtomic;
    } else if (at("?")) {
      refuse(
          "this kind of group is not supported (supported: (...), (?:...), (?i:...), (?=...), (?!...), "
          "(?>...))");
    }
    Node inner = choice(depth + 1);
    if (!take(")")) refuse("\"(\" without \")\"");
    ignores_case_ = case_before;
    if (node.kind == Node::Kind::kEmpty) return inner;
    node.parts.push_back(std::move(inner));
    return node;
  }

  Node bracket() {
    if (ignores_case_) refuse("a set of characters where case is ignored is not supported");
    const bool negated = take("^");
    std::vector<SetTerm> terms;
    while (!take("]")) {
      if (position_ >= text_.size()) refuse("\"[\" without \"]\"");
      if (at("[")) refuse("a set in a set is not supported");
      if (at("&&")) refuse("an intersection of sets is not supported");
      SetTerm term = take("\\") ? escape() : single();
      if (term.kind == SetTerm::Kind::kFlag && term.flag == kIsPatternWord)
        term.kind = SetTerm::Kind::kSetWord;
      const bool is_character =
          term.kind == SetTerm::Kind::kRange && !term.negated && term.first == term.last;
      if (is_character && at("-") && !text_.substr(position_).starts_with("-]")) {
        take("-");
        const SetTerm last = take("\\") ? escape() : single();
        if (last.kind != SetTerm::Kind::kRange || last.negated || last.last < term.first)
          refuse("wrong range");
        term.last = last.last;
      }
      terms.push_back(term);
    }
    return set_node(std::move(terms), negated);
  }
  SetTerm single() {
    const char32_t code = character();
    return range(code, code);
  }

  static SetTerm with_flag(CharacterFlag flag, bool negated) {
    SetTerm term;
    term.kind = SetTerm::Kind::kFlag;
    term.flag = flag;
    term.negated = negated;
    return term;
  }

  SetTerm escape() {
    const char32_t code = character();
    switch (code) {
      case 's':
      case 'S':
        return with_flag(kIsSpace, code == 'S');
      case 'w':
      case 'W':
        return with_flag(kIsPatternWord, code == 'W');
      case 'd':
      case 'D': {
        SetTerm term = categories("Nd");
        term.negated = code == 'D';
        return term;
      }
      case 'p':
      case 'P':
        return property(code == 'P');
      case 'n':
        return range('\n', '\n');
      case 'r':
        return range('\r', '\r');
      case 't':
        return range('\t', '\t');
      case 'f':
        return range('\f', '\f');
      case 'v':
        return range('\v', '\v');
      case 'x':
      case 'u':
        return hexadecimal(code == 'x' ? 2 : 4);
      default:
        break;
    }
    const bool is_word = code >= 128 || (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') ||
                         (code >= 'a' && code <= 'z');
    if (is_word) refuse("this escape is not supported");
    return range(code, code);
  }

  SetTerm hexadecimal(size_t digits) {
    const bool braces = digits == 2 && take("{");
    char32_t value = 0;
    size_t count = 0;
    for (; position_ < text_.size() && count < (braces ? 6 : digits); ++count) {
      const char digit = text_[position_];
      const auto place = std::string_view("0123456789abcdef").find(static_cast<char>(digit | 0x20));
      if (place == std::string_view::npos || (digit < '0')) break;
      value = value * 16 + static_cast<char32_t>(place);
      ++position_;
    }
    if (count == 0 || (!braces && count != digits) || (braces && !take("}")) || value > 0x10FFFF)
      refuse("wrong hexadecimal number");
    if (!braces && digits == 2 && value > 0x7F) refuse("a byte outside ASCII is not supported");
    return range(value, value);
  }

  static SetTerm categories(std::string_view name) {
    SetTerm term;
    term.kind = SetTerm::Kind::kCategories;
    for (const NamedCategory& named : kCategoryNames)
      if (named.name.starts_with(name)) term.categories |= 1U << static_cast<unsigned>(named.category);
    return term;
  }

  SetTerm property(bool negated) {
    if (!take("{")) refuse("\"{\" expected");
    if (take("^")) negated = !negated;
    const size_t end = text_.find('}', position_);
    if (end == std::string_view::npos) refuse("\"}\" expected");
    const std::string_view name = text_.substr(position_, end - position_);
    SetTerm term = categories(name.empty() || name.size() > 2 ? "-" : name);
    for (const NamedScript& named : kScriptNames) {
      if (named.name != name) continue;
      term.kind = SetTerm::Kind::kScript;
      term.script = named.script;
    }
    if (term.kind == SetTerm::Kind::kCategories && term.categories == 0)
      refuse(fmt::format("the property \"{}\" is not supported", name));
    term.negated = negated;
    position_ = end + 1;
    return term;
  }

  uint32_t number() {
    uint32_t value = 0;
    const size_t begin = position_;
    while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
      value = value * 10 + static_cast<uint32_t>(text_[position_++] - '0');
      if (value > kMostRepeats)
        refuse(fmt::format("more than {} repetitions are not supported", kMostRepeats));
    }
    if (begin == position_) refuse("number expected");
    return value;
  }

  /// ?, *, + or {n,m} after `part`, which it then wraps.
  bool repeat(Node& part, size_t begin) {
    Node node;
    node.kind = Node::Kind::kRepeat;
    node.most = kUnbounded;
    bool is_interval = false;
    if (take("?")) {
      node.most = 1;
    } else if (take("+")) {
      node.least = 1;
    } else if (take("{")) {
      is_interval = true;
      if (!at(",")) node.least = number();
      node.most = node.least;
      if (take(",")) node.most = at("}") ? kUnbounded : number();
      if (!take("}") || node.most < node.least) refuse("wrong {n,m}");
    } else if (!take("*")) {
      return false;
    }
    if (take("?")) {
      if (is_interval && node.least == node.most) refuse("{n}? is not supported");
      node.repeat = Repeat::kLazy;
    } else if (!is_interval && take("+")) {
      node.repeat = Repeat::kPossessive;
    }
    if (may_be_empty(part)) {
      position_ = begin;
      refuse("repeating what may be empty is not supported");
    }
    node.parts.push_back(std::move(part));
    part = std::move(node);
    return true;
  }

  std::string_view text_;
  PatternProgram& program_;
  size_t position_ = 0;
  bool ignores_case_ = false;
};

class Emitter {
 public:
  Emitter(PatternProgram& program, std::string_view text) : program_(program), text_(text) {}

  void emit(const Node& node) {
    using Kind = PatternStep::Kind;
    switch (node.kind) {
      case Node::Kind::kEmpty:
        break;
      case Node::Kind::kSet:
        program_.steps[add(Kind::kSet)].set = node.set;
        break;
      case Node::Kind::kSequence:
        for (const Node& part : node.parts) emit(part);
        break;
      case Node::Kind::kChoice:
        emit_choice(node);
        break;
      case Node::Kind::kRepeat:
        emit_repeat(node);
        break;
      case Node::Kind::kLook:
      case Node::Kind::kAtomic:
        emit_enclosed(node.kind == Node::Kind::kLook ? Kind::kLook : Kind::kAtomic, node.negated,
                      node.parts[0]);
        break;
      case Node::Kind::kLineBegin:
        add(Kind::kLineBegin);
        break;
      case Node::Kind::kLineEnd:
        add(Kind::kLineEnd);
        break;
    }
  }

  size_t add(PatternStep::Kind kind) {
    if (program_.steps.size() >= kMostSteps) fail("regular expression \"{}\" is too long", text_);
    program_.steps.emplace_back().kind = kind;
    return program_.steps.size() - 1;
  }

 private:
  uint32_t here() const { return static_cast<uint32_t>(program_.steps.size()); }

  void emit_enclosed(PatternStep::Kind kind, bool negated, const Node& inner) {
    const size_t step = add(kind);
    emit(inner);
    add(PatternStep::Kind::kMatch);
    program_.steps[step].target = here();
    program_.steps[step].negated = negated;
  }

  void emit_choice(const Node& node) {
    std::vector<size_t> jumps;
    for (size_t i = 0; i + 1 < node.parts.size(); ++i) {
      const size_t split = add(PatternStep::Kind::kSplit);
      emit(node.parts[i]);
      jumps.push_back(add(PatternStep::Kind::kJump));
      program_.steps[split].target = here();
    }
    emit(node.parts.back());
    for (const size_t jump : jumps) program_.steps[jump].target = here();
  }

  void emit_repeat(const Node& node) {
    const Node& body = node.parts[0];
    if (body.kind == Node::Kind::kSet) {
      PatternStep& step = program_.steps[add(PatternStep::Kind::kLoop)];
      step.set = body.set;
      step.least = node.least;
      step.most = node.most;
      step.repeat = node.repeat;
      return;
    }
    if (node.repeat == Repeat::kPossessive) {
      Node greedy = node;
      greedy.repeat = Repeat::kGreedy;
      return emit_enclosed(PatternStep::Kind::kAtomic, false, greedy);
    }
    for (uint32_t i = 0; i < node.least; ++i) emit(body);
    if (node.most == kUnbounded) {
      const size_t split = add(PatternStep::Kind::kSplit);
      emit(body);
      program_.steps[add(PatternStep::Kind::kJump)].target = static_cast<uint32_t>(split);
      finish_split(split, node.repeat);
      return;
    }
    std::vector<size_t> splits;
    for (uint32_t i = node.least; i < node.most; ++i) {
      splits.push_back(add(PatternStep::Kind::kSplit));
      emit(body);
    }
    for (const size_t split : splits) finish_split(split, node.repeat);
  }

  void finish_split(size_t split, Repeat repeat) {
    program_.steps[split].target = here();
    program_.steps[split].repeat = repeat;
  }

  PatternProgram& program_;
  std::string_view text_;
};

/// Marks the bytes with which a match from `step` on may begin; true where it may be empty.
bool mark_first_bytes(PatternProgram& program, size_t step, std::vector<bool>& seen) {
  using Kind = PatternStep::Kind;
  for (;; ++step) {
    if (seen[step]) return false;
    seen[step] = true;
    const PatternStep& current = program.steps[step];
    if (current.kind == Kind::kMatch) return true;
    if (current.kind == Kind::kLook || current.kind == Kind::kAtomic) return true;
    if (current.kind == Kind::kJump) {
      step = current.target - 1;
    } else if (current.kind == Kind::kSplit) {
      if (mark_first_bytes(program, current.target, seen)) return true;
    } else if (current.kind == Kind::kSet || current.kind == Kind::kLoop) {
      const CharacterSet& set = program.sets[current.set];
      for (char32_t code = 0; code < 128; ++code)
        if (set.matches(code)) program.first_bytes[code] = true;
      for (size_t byte = 128; byte < 256; ++byte) program.first_bytes[byte] = true;
      if (current.kind == Kind::kSet || current.least > 0) return false;
    }
  }
}

}  // namespace

PatternProgram compile_pattern(std::string_view text) {
  if (text.size() > kMostSteps)
    fail("a regular expression of {} bytes is too long: at most {}", text.size(), kMostSteps);
  PatternProgram program;
  const Node root = Parser(text, program).parse();
  Emitter emitter(program, text);
  emitter.emit(root);
  emitter.add(PatternStep::Kind::kMatch);
  std::vector<bool> seen(program.steps.size());
  program.may_be_empty = may_be_empty(root) || mark_first_bytes(program, 0, seen);
  return program;
}

}  // namespace detent
