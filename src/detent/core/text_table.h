#pragma once

#include <string>
#include <vector>

#include "detent/core/text.h"

namespace detent {

/// A table for people and, as CSV, for programs. Columns whose body cells are all numbers are right-aligned.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : header_(std::move(header)) {}

  /// As many cells as the header has.
  void add_row(std::vector<std::string> cells);
  size_t row_count() const { return rows_.size(); }
  const std::vector<std::string>& header() const { return header_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

  /// `| a | b |` rows with a rule below the header; ends with a newline. Valid Markdown, except where the
  /// table is wider than `columns`: then cells of text are wrapped to lines of their column. Control
  /// characters are escaped (see printable_line).
  std::string to_text(size_t columns = terminal_columns()) const;
  /// RFC 4180 with \n line ends, header first.
  std::string to_csv() const;

 private:
  struct Column {
    size_t width = 3;
    size_t least = 3;  // to which it may be narrowed
    bool numeric = false;
  };
  std::vector<Column> layout(size_t columns) const;

  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace detent
