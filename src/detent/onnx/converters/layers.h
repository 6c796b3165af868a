#pragma once

#include <optional>

#include "detent/onnx/node_import.h"

namespace detent {

/// What is added to each channel of a layer's result, and nothing else reads that, is the layer's bias: the
/// layer with it. Nothing where input `addend` is something else.
std::optional<NodeInput> layer_with_bias(NodeImport& node, size_t product, size_t addend);

/// Two inputs added to each other; a layer with a bias where they are one.
NodeInput added(NodeImport& node, size_t product, size_t addend);

}  // namespace detent
