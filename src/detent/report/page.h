#pragma once

#include <filesystem>
#include <string>

#include "detent/core/value.h"

namespace detent {

/// One HTML file that shows `results` (docs/results.md) and needs nothing else: the network as a graph,
/// histograms with the grids of the formats, errors and sizes by layer, tables, the configuration. It loads
/// nothing from a network.
std::string report_page(const Table& results);

/// Whether the file is such a page.
bool is_report_page(const std::filesystem::path& path);

}  // namespace detent
