#include "detent/report/page.h"

#include <charconv>
#include <cctype>

namespace detent {
namespace {

template <class T>
bool parses(const std::string& cell, T& number) {
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  return error == std::errc() && end == cell.data() + cell.size();
}

Value cell_value(const std::string& cell) {
  if (cell.empty()) return {};
  // "+3" is a change; from_chars takes no plus.
  const std::string text = cell.starts_with('+') ? cell.substr(1) : cell;
  int64_t integer = 0;
  if (parses(text, integer)) return integer;
  double number = 0;
  if (parses(text, number)) return number;
  return cell;
}

}  // namespace

std::string key_of_heading(std::string_view heading) {
  std::string key;
  for (const char letter : heading) {
    if (letter == '%') {
      key += key.empty() || key.back() == '_' ? "percent" : "_percent";
    } else if (std::isalnum(static_cast<unsigned char>(letter)) != 0) {
      key += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    } else if (!key.empty() && key.back() != '_') {
      key += '_';
    }
  }
  while (key.ends_with('_')) key.pop_back();
  return key.empty() ? "name" : key;
}

List table_value(const TextTable& table) {
  std::vector<std::string> keys;
  for (const std::string& heading : table.header()) keys.push_back(key_of_heading(heading));
  List rows;
  for (const std::vector<std::string>& cells : table.rows()) {
    Table row;
    for (size_t i = 0; i < cells.size(); ++i) row[keys[i]] = cell_value(cells[i]);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace detent
