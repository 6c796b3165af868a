#pragma once

#include <string>
#include <vector>

namespace detent {

/// A table for people and, as CSV, for programs. Columns whose body cells are all numbers are right-aligned.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : header_(std::move(header)) {}

  /// As many cells as the header has.
  void add_row(std::vector<std::string> cells);
  size_t row_count() const { return rows_.size(); }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

  /// `| a | b |` rows with a rule below the header; ends with a newline. Valid Markdown.
  std::string to_text() const;
  /// RFC 4180 with \n line ends, header first.
  std::string to_csv() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace detent
