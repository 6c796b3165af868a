#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>

#include "detent/core/text_table.h"
#include "detent/core/value.h"

namespace detent {

/// One HTML file that shows `results` (docs/results.md) and needs nothing else: the network as a graph,
/// histograms with the grids of the formats, errors and sizes by layer, tables, the configuration. It loads
/// nothing from a network.
std::string report_page(const Table& results);

/// Whether the file is such a page.
bool is_report_page(const std::filesystem::path& path);

/// "SQNR weight" -> "sqnr_weight", "saturated %" -> "saturated_percent": a column's heading as a key.
std::string key_of_heading(std::string_view heading);

/// The rows as tables with the headings as keys: a cell that is a number becomes one, an empty one NA, others
/// stay text.
List table_value(const TextTable& table);

/// The key "pareto" of results as a drawing (SVG): cost to the right, quality upward, the front in another
/// colour than what is not on it, and names beside its points. Points whose quality is not finite are left
/// out.
std::string front_drawing(const Table& pareto);

}  // namespace detent

namespace detent::page_parts {

/// The files in page/, embedded in the library by report/CMakeLists.txt.
extern const std::string_view kPage;
extern const std::string_view kStyle;
extern const std::array<std::string_view, 3> kScripts;

}  // namespace detent::page_parts
