#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "detent/graph/graph.h"

namespace detent {

/// A graph with its quantization in one safetensors file, suffix `.mz`: parameters are tensors under the keys
/// that PyTorch would give them, everything else is JSON in the header's metadata:
///   format   "detent.graph"
///   version  "4"
///   graph    {"name", "nodes": [{"name", "op", "inputs", "parameters", "quantization", ...}],
///            "quantizers": [{"format", "keys", "parameters"}]};
///            where parameters are packed a tensor instead, compressed (graph_layout.h)
/// Operands refer to quantizers by their place, so that those which share one do so again when read.
/// Long lists of numbers among the statistics and in formats are tensors too: recorded values may be as many
/// as there is memory for, a header has 100 MB at most.
///
/// Parameters that several nodes share (tied weights) are stored once and shared again when read; those of a
/// quantizer under the key of its first operand.
///
/// Throws Error when the graph breaks a rule of `verify` or the file cannot be written.
void write_graph(const std::filesystem::path& path, const Graph& graph);

/// The same with quantized parameters as codes (packed_tensors.h), where that is proved to change nothing
/// (packed_tensors.h). Read again they are the rounded values, and what was more exact is lost: for networks
/// that are not to be trained any more. Returns a line for each quantized parameter that stays float32.
std::vector<std::string> write_packed_graph(const std::filesystem::path& path, const Graph& graph);

/// Number of packed parameters, from the header.
int64_t packed_parameter_count(const std::filesystem::path& path);

/// Parameters borrow from the mapped file, copy on write; packed ones are decoded. The graph has passed
/// `verify`. Throws Error naming
/// the file, and the node where there is one, on anything else than a file that `write_graph` wrote: another
/// kind or a newer version, damage (safetensors.h), wrong types, unknown keys, missing or unused tensors,
/// duplicate nodes, codes that are not those of their format. Files of the versions 1 to 3 are read too.
Graph read_graph(const std::filesystem::path& path);

}  // namespace detent
