#include "detent/core/text_table.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/text.h"

namespace detent {
namespace {

bool is_number(const std::string& cell) {
  const char* begin = cell.data() + (cell.starts_with('+') ? 1 : 0);
  const char* end = cell.data() + cell.size();
  if (end != begin && *(end - 1) == '%') --end;
  double value = 0;
  const auto [parsed_end, error] = std::from_chars(begin, end, value);
  return error == std::errc() && parsed_end == end;
}

size_t longest_word(const std::string& text) {
  size_t longest = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    longest = std::max(longest, display_width(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return longest;
}

std::string csv_cell(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (const char c : cell) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string csv_row(const std::vector<std::string>& cells) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) line += (i > 0 ? "," : "") + csv_cell(cells[i]);
  return line + "\n";
}

}  // namespace

void TextTable::add_row(std::vector<std::string> cells) {
  DETENT_CHECK(cells.size() == header_.size(), "{} cells in a row, {} in the header", cells.size(),
               header_.size());
  rows_.push_back(std::move(cells));
}

std::vector<TextTable::Column> TextTable::layout(size_t columns) const {
  constexpr size_t kLeastText = 6;
  std::vector<Column> result(header_.size());
  size_t total = 1;
  for (size_t i = 0; i < result.size(); ++i) {
    Column& column = result[i];
    bool has_text = false;
    size_t widest_number = 0;
    for (const auto& row : rows_) {
      const size_t width = display_width(printable_line(row[i]));
      const bool number = is_number(row[i]);
      column.width = std::max(column.width, width);
      column.numeric = column.numeric || number;
      if (number) widest_number = std::max(widest_number, width);
      has_text = has_text || !(number || row[i].empty() || row[i] == "-");
    }
    column.numeric = column.numeric && !has_text;
    column.width = std::max(column.width, display_width(printable_line(header_[i])));
    const size_t least = column.numeric ? std::max(widest_number, longest_word(header_[i])) : kLeastText;
    column.least = std::min(column.width, least);
    total += column.width + 3;
  }
  while (total > columns) {
    const auto room = [](const Column& column) { return column.width > column.least ? column.width : 0; };
    const auto widest = std::ranges::max_element(result, {}, room);
    if (widest == result.end() || room(*widest) == 0) break;
    --widest->width;
    --total;
  }
  return result;
}

std::string TextTable::to_text(size_t columns) const {
  const std::vector<Column> layout = this->layout(columns);
  const auto row_text = [&](const std::vector<std::string>& cells) {
    std::vector<std::vector<std::string>> wrapped;
    size_t lines = 1;
    for (size_t i = 0; i < cells.size(); ++i) {
      std::string cell = printable_line(cells[i]);
      const bool fits = display_width(cell) <= layout[i].width;
      wrapped.push_back(fits ? std::vector{std::move(cell)} : wrapped_lines(cell, layout[i].width));
      lines = std::max(lines, wrapped.back().size());
    }
    std::string text;
    for (size_t line = 0; line < lines; ++line) {
      text += "|";
      for (size_t i = 0; i < cells.size(); ++i) {
        const std::string cell = line < wrapped[i].size() ? wrapped[i][line] : "";
        const std::string padding(layout[i].width - display_width(cell), ' ');
        text +=
            layout[i].numeric ? fmt::format(" {}{} |", padding, cell) : fmt::format(" {}{} |", cell, padding);
      }
      text += "\n";
    }
    return text;
  };

  std::string text = row_text(header_) + "|";
  for (const Column& column : layout) {
    text += column.numeric ? fmt::format("{:->{}}:|", "", column.width + 1)
                           : fmt::format("{:->{}}|", "", column.width + 2);
  }
  text += "\n";
  for (const auto& row : rows_) text += row_text(row);
  return text;
}

std::string TextTable::to_csv() const {
  std::string text = csv_row(header_);
  for (const auto& row : rows_) text += csv_row(row);
  return text;
}

}  // namespace detent
