#pragma once

#include <filesystem>
#include <string>

#include "detent/graph/graph.h"

namespace detent {

/// The network in Graphviz's language (DOT): a box a node with its operator, the shape of its result and the
/// formats of its operands; constants that a node owns are not drawn.
std::string dot_text(const Graph& graph);

/// Writes the network to `path`: as DOT where that ends in .dot or .gv, else drawn by Graphviz's program
/// `dot`, as .svg, .png or .pdf. Throws Error on another ending, where `dot` is not installed, and where it
/// fails.
void draw_graph(const Graph& graph, const std::filesystem::path& path);

}  // namespace detent
