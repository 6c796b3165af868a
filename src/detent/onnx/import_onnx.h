#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Settings of an import beside the file.
struct OnnxImportOptions {
  /// Shapes of inputs, by name, where the model leaves sizes open. An open first size that is not given here
  /// is the batch's.
  InputShapes shapes = {};
  /// Where all inputs begin with a size of 1, as of a network exported for one sample, take it for a batch of
  /// any size, if all outputs then begin with that too.
  bool frees_batch = true;
  /// Whether `shapes` also fix what would be the batch: done where a network takes no other sizes, as of a
  /// loop over the first dimension.
  bool fixes_first = false;
  /// Whether open sizes that `shapes` do not give, but the batch's, are those that are tried, of which the
  /// network takes the first.
  bool fixes_open = false;
  /// Sizes of open dimensions, by the names that these have in the graph.
  NamedSizes sizes = {};
};

/// Reads a model in ONNX's format (any opset and IR version, those that are newer than what is known with a
/// warning) as a graph that computes the same in float32; other floats are widened and narrowed at its
/// inputs, outputs and casts, and integers of types that no DType is are held by wider ones
/// (tensor_data.h). Constants of layers become their parameters; what depends on constants and known
/// shapes alone is computed once. Nodes keep their names as far as letters, digits and underscores allow,
/// values theirs in Node::source_names. Throws Error naming the file and the node, once with all nodes whose
/// operators are not supported.
Graph import_onnx(const std::filesystem::path& path, const OnnxImportOptions& options = {});

/// The same for what only tells of a network: where it loads with known sizes only, as with a loop over an
/// open one, these are `fixes_open`'s, and `reason` is why. Else that stays empty.
Graph import_onnx_at_any_size(const std::filesystem::path& path, const InputShapes& shapes,
                              std::string& reason);

/// Whether it has one branch alone of an If, so that a run whose condition chooses the other one ends with an
/// error, though sizes may know it: such a network is better brought in at the sizes of its inputs.
bool lacks_branches(const Graph& graph);

}  // namespace detent
