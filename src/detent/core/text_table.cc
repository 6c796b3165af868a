#include "detent/core/text_table.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "detent/core/error.h"

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

/// Printed columns of UTF-8 text: every byte but the continuation bytes.
size_t display_width(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
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

std::string TextTable::to_text() const {
  const size_t columns = header_.size();
  std::vector<size_t> width(columns);
  std::vector<bool> numeric(columns);
  for (size_t i = 0; i < columns; ++i) {
    width[i] = std::max<size_t>(3, display_width(header_[i]));
    bool has_text = false;
    for (const auto& row : rows_) {
      width[i] = std::max(width[i], display_width(row[i]));
      const bool number = is_number(row[i]);
      numeric[i] = numeric[i] || number;
      has_text = has_text || !(number || row[i].empty() || row[i] == "-");
    }
    numeric[i] = numeric[i] && !has_text;
  }

  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (size_t i = 0; i < columns; ++i) {
      const std::string padding(width[i] - display_width(cells[i]), ' ');
      text +=
          numeric[i] ? fmt::format(" {}{} |", padding, cells[i]) : fmt::format(" {}{} |", cells[i], padding);
    }
    return text + "\n";
  };

  std::string text = line(header_) + "|";
  for (size_t i = 0; i < columns; ++i) {
    text +=
        numeric[i] ? fmt::format("{:->{}}:|", "", width[i] + 1) : fmt::format("{:->{}}|", "", width[i] + 2);
  }
  text += "\n";
  for (const auto& row : rows_) text += line(row);
  return text;
}

std::string TextTable::to_csv() const {
  std::string text = csv_row(header_);
  for (const auto& row : rows_) text += csv_row(row);
  return text;
}

}  // namespace detent
