#include <algorithm>
#include <array>

#include "detent/core/error.h"
#include "detent/tokenizers/chat/template_syntax.h"
#include "detent/tokenizers/unicode.h"

namespace detent {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }

/// Newlines as \n, without the one at the end.
std::string with_plain_newlines(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      if (i + 1 < text.size() && text[i + 1] == '\n') continue;
      result += '\n';
    } else {
      result += text[i];
    }
  }
  if (result.ends_with('\n')) result.pop_back();
  return result;
}

class TemplateLexer {
 public:
  TemplateLexer(std::string_view text, const std::string& name)
      : text_(with_plain_newlines(text)), name_(name) {}

  std::vector<TemplateToken> tokens() {
    while (position_ < text_.size()) {
      const size_t open = next_opening();
      take_text(open);
      if (open == std::string::npos) break;
      take_tag(open);
    }
    add(TemplateToken::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    fail("{}: line {}: {}", name_, line_, problem);
  }

  void add(TemplateToken::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  size_t next_opening() const {
    for (size_t i = text_.find('{', position_); i != std::string::npos; i = text_.find('{', i + 1)) {
      const char mark = i + 1 < text_.size() ? text_[i + 1] : '\0';
      if (mark == '{' || mark == '%' || mark == '#') return i;
    }
    return std::string::npos;
  }

  void advance(size_t end) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(position_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    position_ = end;
  }

  /// Up to a tag: "-" strips all space before it, and a block alone in its line loses the space before it.
  void take_text(size_t open) {
    const size_t end = std::min(open, text_.size());
    std::string text = text_.substr(position_, end - position_);
    const char mark = open == std::string::npos ? '\0' : text_[open + 1];
    const char sign = open != std::string::npos && open + 2 < text_.size() ? text_[open + 2] : '\0';
    if (open != std::string::npos && sign == '-') {
      while (!text.empty() && is_blank(text.back())) text.pop_back();
    } else if ((mark == '%' || mark == '#') && sign != '+') {
      const size_t line_begin =
          text.find_last_of('\n') == std::string::npos ? 0 : text.find_last_of('\n') + 1;
      const bool blank =
          std::all_of(text.begin() + static_cast<std::ptrdiff_t>(line_begin), text.end(), is_blank);
      if (blank && (line_begin > 0 || at_line_begin_)) text.resize(line_begin);
    }
    if (!text.empty()) add(TemplateToken::Kind::kText, text);
    advance(end);
  }

  /// After a tag: "-" strips all space, and a block the first newline.
  void finish_tag(size_t end, bool strips, bool drops_newline) {
    size_t next = end;
    if (strips) {
      while (next < text_.size() && is_blank(text_[next])) ++next;
    } else if (drops_newline && next < text_.size() && text_[next] == '\n') {
      ++next;
    }
    at_line_begin_ = next > end && text_[next - 1] == '\n';
    advance(next);
  }

  void take_tag(size_t open) {
    const char mark = text_[open + 1];
    if (mark == '#') {
      const size_t close = text_.find("#}", open + 2);
      if (close == std::string::npos) refuse("a comment does not end");
      return finish_tag(close + 2, close > open + 2 && text_[close - 1] == '-', true);
    }
    const bool is_block = mark == '%';
    add(is_block ? TemplateToken::Kind::kBlockBegin : TemplateToken::Kind::kOutputBegin, "");
    size_t begin = open + 2;
    if (begin < text_.size() && (text_[begin] == '-' || text_[begin] == '+')) ++begin;
    advance(begin);
    const std::string close = is_block ? "%}" : "}}";
    int braces = 0;
    for (;;) {
      while (position_ < text_.size() && is_blank(text_[position_])) advance(position_ + 1);
      const std::string_view rest = std::string_view(text_).substr(position_);
      if (rest.empty()) refuse("a tag does not end");
      const bool signed_end = (rest[0] == '-' || rest[0] == '+') && rest.substr(1).starts_with(close);
      if (braces == 0 && (signed_end || rest.starts_with(close))) {
        add(is_block ? TemplateToken::Kind::kBlockEnd : TemplateToken::Kind::kOutputEnd, "");
        return finish_tag(position_ + close.size() + (signed_end ? 1 : 0), signed_end && rest[0] == '-',
                          is_block && !(signed_end && rest[0] == '+'));
      }
      if (rest[0] == '{') ++braces;
      if (rest[0] == '}') --braces;
      take_word(rest);
    }
  }

  void take_word(std::string_view rest) {
    size_t length = 1;
    if (is_letter(rest[0])) {
      while (length < rest.size() && (is_letter(rest[length]) || is_digit(rest[length]))) ++length;
      add(TemplateToken::Kind::kName, std::string(rest.substr(0, length)));
    } else if (is_digit(rest[0])) {
      while (length < rest.size() &&
             (is_digit(rest[length]) ||
              (rest[length] == '.' && length + 1 < rest.size() && is_digit(rest[length + 1]))))
        ++length;
      add(TemplateToken::Kind::kNumber, std::string(rest.substr(0, length)));
    } else if (rest[0] == '"' || rest[0] == '\'') {
      return take_string(rest);
    } else {
      constexpr auto kPairs = std::to_array<std::string_view>({"==", "!=", "<=", ">=", "//", "**"});
      if (std::ranges::any_of(kPairs, [&](std::string_view pair) { return rest.starts_with(pair); }))
        length = 2;
      constexpr std::string_view kSingle = "+-*/%~<>=.,:|()[]{}";
      if (length == 1 && kSingle.find(rest[0]) == std::string_view::npos)
        refuse(fmt::format("unexpected character '{}'", rest[0]));
      add(TemplateToken::Kind::kOperator, std::string(rest.substr(0, length)));
    }
    advance(position_ + length);
  }

  void take_string(std::string_view rest) {
    std::string content;
    size_t i = 1;
    for (; i < rest.size() && rest[i] != rest[0]; ++i) {
      if (rest[i] != '\\' || i + 1 == rest.size()) {
        content += rest[i];
        continue;
      }
      const char escaped = rest[++i];
      constexpr std::string_view kNames = "ntrbf0'\"\\/";
      constexpr std::string_view kMeanings("\n\t\r\b\f\0'\"\\/", 10);
      const size_t place = kNames.find(escaped);
      if (escaped == 'u' || escaped == 'x') {
        const size_t digits = escaped == 'u' ? 4 : 2;
        append_character(content, hexadecimal(rest.substr(std::min(rest.size(), i + 1), digits), digits));
        i += digits;
      } else if (place == std::string_view::npos || escaped == '/') {
        content += '\\';  // as Python leaves it
        content += escaped;
      } else {
        content += kMeanings[place];
      }
    }
    if (i >= rest.size()) refuse("a text does not end");
    add(TemplateToken::Kind::kString, std::move(content));
    advance(position_ + i + 1);
  }

  char32_t hexadecimal(std::string_view text, size_t digits) const {
    char32_t value = 0;
    for (const char digit : text) {
      const size_t place = std::string_view("0123456789abcdef").find(static_cast<char>(digit | 0x20));
      if (place == std::string_view::npos) refuse("wrong hexadecimal number");
      value = value * 16 + static_cast<char32_t>(place);
    }
    if (text.size() != digits || (value >= 0xD800 && value <= 0xDFFF)) refuse("wrong hexadecimal number");
    return value;
  }

  std::string text_;
  const std::string& name_;
  size_t position_ = 0;
  int line_ = 1;
  bool at_line_begin_ = true;
  std::vector<TemplateToken> tokens_;
};

}  // namespace

std::vector<TemplateToken> template_tokens(std::string_view text, const std::string& name) {
  if (!is_valid_utf8(text)) fail("{}: not valid UTF-8", name);
  return TemplateLexer(text, name).tokens();
}

}  // namespace detent
