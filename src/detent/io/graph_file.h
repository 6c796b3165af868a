#pragma once

#include <filesystem>

#include "detent/graph/graph.h"

namespace detent {

/// A graph with its quantization in one safetensors file, suffix `.mz`: parameters are tensors under the keys
/// that PyTorch would give them, everything else is JSON in the header's metadata:
///   format   "detent.graph"
///   version  "3"
///   graph    {"name", "nodes": [{"name", "op", "inputs", "parameters", "quantization", ...}], "quantizers"}
/// Operands refer to quantizers by their place, so that those which share one do so again when read.
/// Long lists of numbers among the statistics are tensors too: recorded values may be as many as there is
/// memory for, a header has 100 MB at most.
///
/// Parameters that several nodes share (tied weights) are stored once and shared again when read.
///
/// Throws Error when the graph breaks a rule of `verify` or the file cannot be written.
void write_graph(const std::filesystem::path& path, const Graph& graph);

/// Parameters borrow from the mapped file, copy on write. The graph has passed `verify`. Throws Error naming
/// the file, and the node where there is one, on anything else than a file that `write_graph` wrote: another
/// kind or a newer version, damage (safetensors.h), wrong types, unknown keys, missing or unused tensors,
/// duplicate nodes. Files of versions 1 and 2 are read too.
Graph read_graph(const std::filesystem::path& path);

}  // namespace detent
