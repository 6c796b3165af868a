#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

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

/// Printed columns of UTF-8 text: a character each.
size_t display_width(std::string_view text);

/// The beginning of `text` that takes at most `columns` columns.
std::string_view first_columns(std::string_view text, size_t columns);

/// `text` in lines of at most `width` columns, at least one line. Lines break at spaces and newlines, words
/// that are longer after one of , . / _ - = : ; or else anywhere.
std::vector<std::string> wrapped_lines(std::string_view text, size_t width);

/// The same, each line after `indent` spaces and with a newline; `width` counts the indent.
std::string wrapped_text(std::string_view text, size_t indent, size_t width);

/// An entry of a list for people, `width` columns wide: `name` after two spaces and, from a fixed column on,
/// what it means.
std::string described(std::string_view name, std::string_view meaning, size_t width);

/// Columns of help texts: those of the terminal, 40 to 100; 80 where there is none.
size_t help_columns();

/// The parts of `text` between separators, one more than there are of these: they may be empty.
std::vector<std::string> text_parts(std::string_view text, char separator);

}  // namespace detent
