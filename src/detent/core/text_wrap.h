#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace detent {

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

}  // namespace detent
