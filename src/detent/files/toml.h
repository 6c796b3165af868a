#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "detent/core/value.h"

namespace detent {

/// How `toml_text` orders tables. In both, a table's scalars and lists precede its sub-tables, a header is
/// printed only for a table that has scalars or is empty, and one blank line stands between tables.
enum class TomlLayout : uint8_t {
  /// A table is followed at once by its sub-tables, lists are `[1, 2]`: configuration files.
  kDepthFirst,
  /// All tables of one depth precede those of the next, lists are `[ 1, 2,]`, exponents lose their leading
  /// zero:
  /// byte for byte what Python's `toml` package writes, hence node metadata.
  kBreadthFirst,
};

/// Parses TOML 1.0. Keys stand in the order of the file, values know their line, and the strings "NA" and
/// "None" become NA wherever they stand. Throws Error "name:line:column: ..." on a syntax error, a duplicate
/// key, an integer outside int64, a date or a time, and on nesting deeper than 128 tables and lists.
Table parse_toml(std::string_view text, const std::string& name);

/// `parse_toml` of a file of at most 256 MiB.
Table read_toml(const std::filesystem::path& path);

/// NA is written as "NA", a table inside a list as an inline table. Strings are taken to be UTF-8.
/// `parse_toml(toml_text(t))` has the values of t; with kDepthFirst also its order, but for scalars that
/// follow a sub-table.
std::string toml_text(const Table& table, TomlLayout layout = TomlLayout::kDepthFirst);

void write_toml(const std::filesystem::path& path, const Table& table,
                TomlLayout layout = TomlLayout::kDepthFirst);

}  // namespace detent
