#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

#include "detent/onnx/importer.h"

// Loops, and branches, that become nodes with a body (graph/loop.h), as the model has them.

namespace detent {

struct OnnxImporter::KeptLoop {
  const onnx::GraphProto& body;
  std::vector<std::string> names = {};  // of carried values in the body
  NodeInput most = {}, condition = {};
  std::vector<ImportedValue*> carried = {};  // before the first iteration
  /// Converts the body's nodes: its condition, carried and collected values, of the iteration's number and
  /// the carried values.
  std::function<std::vector<ImportedValue*>(OnnxImporter& inner, const NodeInput& iteration,
                                            const std::vector<ImportedValue*>& carried)>
      convert = {};
};

/// Values that a loop carries.
struct OnnxImporter::CarriedValues {
  std::vector<TriedTypes> types = {};
  std::vector<bool> are_tensors = {};                     // that may change
  std::vector<std::optional<int64_t>> joined_along = {};  // of lists whose elements are joined as they come

  /// Whether the body takes and gives a tensor for it.
  bool has_tensor(size_t k) const { return are_tensors[k] || joined_along[k]; }
};

struct OnnxImporter::Iteration {
  OnnxImporter inner;
  std::vector<ImportedValue*> carried = {};  // before it
  std::vector<ImportedValue*> results = {};
};

/// Whether one can be carried on as the other.
bool are_alike(const TriedTypes& a, const TriedTypes& b);
ImportedValue true_value();

}  // namespace detent
