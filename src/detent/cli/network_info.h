#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/graph/graph.h"

namespace detent {

/// Inputs, outputs and contents of a network: inputs, outputs, operators, parameters, multiply-accumulates,
/// by name.
Table network_facts(const Graph& graph);

/// Bytes of all parameters on the disk, with scales, if the weights of layers had a format.
struct FormatSize {
  std::string format;  // "" as they are now
  int64_t bytes = 0;
  double bits_per_weight = 0;  // of those that have the format
};

/// As the network is, and with formats that are often chosen; empty of a network without layers that have
/// weights.
std::vector<FormatSize> sizes_by_format(const Graph& graph);

/// A node that computes in float between nodes on quantized integers.
struct UnquantizedNode {
  std::string name;
  std::string op;
  std::string why;
};

/// Float nodes of a network that is quantized for integers, or those that there will be after `detent
/// quantize`. None of a network that has formats for a simulation.
std::vector<UnquantizedNode> float_nodes(const Graph& graph);

/// "3 x layer_norm (no integer form), 1 x div (divides by a tensor)"
std::string float_nodes_text(const std::vector<UnquantizedNode>& nodes);

/// The network in Graphviz's language (DOT): a box a node with its operator, the shape of its result and the
/// formats of its operands; constants that a node owns are not drawn.
std::string dot_text(const Graph& graph);

/// Writes the network to `path`: as DOT where that ends in .dot or .gv, else drawn by Graphviz's program
/// `dot`, as .svg, .png or .pdf. Throws Error on another ending, where `dot` is not installed, and where it
/// fails.
void draw_graph(const Graph& graph, const std::filesystem::path& path);

}  // namespace detent
