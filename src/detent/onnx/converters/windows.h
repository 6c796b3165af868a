#pragma once

#include <optional>
#include <vector>

#include "detent/onnx/node_import.h"

namespace detent {

/// Sizes, steps and borders of windows that a convolution or pooling node moves over the last dimensions.
struct ImportedWindow {
  std::vector<int64_t> kernel;
  std::vector<int64_t> stride;
  std::vector<int64_t> dilation;
  std::vector<int64_t> before;  // border before each dimension
  std::vector<int64_t> behind;

  bool is_symmetric() const { return before == behind; }
  bool has_border() const;
};

/// As the node's attributes say, auto_pad resolved; `kernel` where they do not give it. Throws Error where a
/// list has another length than the input has spatial dimensions.
ImportedWindow imported_window(const NodeImport& node,
                               const std::optional<std::vector<int64_t>>& kernel = {});

/// Attributes of a convolution's node. A border that differs between the sides is not among them:
/// with_border.
Table convolution_attributes(const NodeImport& node, const ImportedWindow& window);

/// A value with the window's border of this number around it.
NodeInput with_border(NodeImport& node, const ImportedWindow& window, NodeInput input, double value);

/// A value as the node's window averages it (pooling.cc).
NodeInput average_pooled(NodeImport& node, NodeInput input);

}  // namespace detent
