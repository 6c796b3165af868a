#pragma once

#include <string>

#include "detent/graph/graph.h"

namespace detent {

/// Weighted sums whose inputs have a list of a few values that no affine format has, as signs: a product of
/// an input and a weight is then a table of one input. Of signs it is an XNOR, and the sum counts them.

/// Whether the node is such a sum, its weights multiples of one step.
bool has_product_tables(const Node& node);

/// Makes a layer of tables of it, `lut` or `lut_conv1d` or `lut_conv2d`: its results are multiples of the
/// inputs' step times the weights'. Returns whether that changed the bias.
bool make_product_tables(Node& node);

/// Why a node whose input has such a list cannot be one; "" for other nodes.
std::string why_no_product_tables(const Node& node);

}  // namespace detent
