#include "detent/core/text.h"

#include <algorithm>

namespace detent {
namespace {

constexpr std::string_view kBreaks = ",./_-=:;";

/// Takes from `word`, which is longer than a line, what fits in one.
std::string take_part(std::string_view& word, size_t width) {
  size_t bytes = first_columns(word, width).size();
  const size_t last = word.substr(0, bytes).find_last_of(kBreaks);
  if (last != std::string_view::npos && last > 0 && last + 1 >= bytes / 2) bytes = last + 1;
  std::string part(word.substr(0, bytes));
  word.remove_prefix(bytes);
  return part;
}

}  // namespace

size_t display_width(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; }));
}

std::string_view first_columns(std::string_view text, size_t columns) {
  size_t bytes = 0;
  for (size_t seen = 0; bytes < text.size(); ++bytes) {
    const bool starts = (static_cast<unsigned char>(text[bytes]) & 0xC0U) != 0x80;
    if (starts && ++seen > columns) break;
  }
  return text.substr(0, bytes);
}

std::vector<std::string> wrapped_lines(std::string_view text, size_t width) {
  width = std::max<size_t>(width, 1);
  std::vector<std::string> lines;
  std::string line;
  const auto end_line = [&] {
    lines.push_back(line);
    line.clear();
  };
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    std::string_view word = text.substr(0, end);
    const bool newline = end < text.size() && text[end] == '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && !word.empty() && display_width(line) + 1 + display_width(word) > width) end_line();
    while (display_width(word) > width) {
      line = take_part(word, width);
      end_line();
    }
    if (!word.empty()) line += (line.empty() ? "" : " ") + std::string(word);
    if (newline) end_line();
  }
  if (!line.empty() || lines.empty()) end_line();
  return lines;
}

std::string wrapped_text(std::string_view text, size_t indent, size_t width) {
  std::string result;
  for (const std::string& line : wrapped_lines(text, width > indent ? width - indent : 1)) {
    result += line.empty() ? "\n" : std::string(indent, ' ') + line + "\n";
  }
  return result;
}

std::string described(std::string_view name, std::string_view meaning, size_t width) {
  constexpr size_t kMeaningColumn = 26;
  std::string result = "  " + std::string(name);
  const std::string lines = wrapped_text(meaning, kMeaningColumn, width);
  if (meaning.empty()) return result + "\n";
  if (display_width(result) + 2 > kMeaningColumn) return result + "\n" + lines;
  return result + lines.substr(display_width(result));
}

size_t help_columns() {
  const size_t columns = terminal_columns();
  return columns == kUnlimitedColumns ? 80 : std::clamp<size_t>(columns, 40, 100);
}

std::vector<std::string> text_parts(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace detent
