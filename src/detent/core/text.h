#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace detent {

/// No line limit.
constexpr size_t kUnlimitedColumns = std::numeric_limits<size_t>::max();

/// Columns of the terminal that `descriptor` is, standard output if none is given; kUnlimitedColumns where it
/// is no terminal.
size_t terminal_columns(int descriptor = 1);

/// Whether `descriptor` is a terminal that moves its cursor: not one of TERM=dumb.
bool is_terminal(int descriptor);

/// Whether to colour what goes to `descriptor`: a terminal, and NO_COLOR is unset or empty (no-color.org).
bool wants_colour(int descriptor);

/// `text` made safe for a terminal: control characters (C0 except newline and tab, DEL, C1), bidirectional
/// controls and line separators become \u001b, invalid UTF-8 \x9b.
std::string printable(std::string_view text);

/// The same on one line: newlines and tabs are escaped too.
std::string printable_line(std::string_view text);

/// Columns of UTF-8 text, one per character.
size_t display_width(std::string_view text);

/// The longest prefix of `text` of at most `columns` columns.
std::string_view first_columns(std::string_view text, size_t columns);

/// Wraps `text` to `width` columns, at least one line. Breaks at spaces and newlines, long words after one of
/// , . / _ - = : ; or anywhere.
std::vector<std::string> wrapped_lines(std::string_view text, size_t width);

/// The same with each line indented and ended by a newline; `width` includes the indent.
std::string wrapped_text(std::string_view text, size_t indent, size_t width);

/// A list entry of `width` columns: `name` after two spaces, its meaning from a fixed column.
std::string described(std::string_view name, std::string_view meaning, size_t width);

/// Columns of help texts: those of the terminal, 40 to 100; 80 where there is none.
size_t help_columns();

/// Splits `text` at separators; parts may be empty.
std::vector<std::string> text_parts(std::string_view text, char separator);

}  // namespace detent
