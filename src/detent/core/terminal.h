#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace detent {

/// Where lines need not end.
constexpr size_t kUnlimitedColumns = std::numeric_limits<size_t>::max();

/// Columns of the terminal that `descriptor` is, standard output if none is given; kUnlimitedColumns where it
/// is no terminal.
size_t terminal_columns(int descriptor = 1);

/// Whether `descriptor` is a terminal that moves its cursor: not one of TERM=dumb.
bool is_terminal(int descriptor);

/// Whether to colour what goes to `descriptor`: a terminal, and NO_COLOR is unset or empty (no-color.org).
bool wants_colour(int descriptor);

/// `text` as a terminal may show it, whatever file it is from: control characters (C0 but newline and tab,
/// DEL, C1), what turns the direction of text, and line separators are escaped as \u001b, bytes that are no
/// UTF-8 as \x9b.
std::string printable(std::string_view text);

/// The same in one line: newlines and tabs are escaped too.
std::string printable_line(std::string_view text);

}  // namespace detent
