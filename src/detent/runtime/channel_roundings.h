#pragma once

#include "detent/graph/graph.h"

namespace detent {

/// The graph with nodes of their own for what rounds a value with one given scale a channel: quantize_linear
/// and dequantize_linear, since a value has codes of one type. Of affine formats whose codes are those of an
/// element type; other quantizers stay.
///
///     conv (data_out_0 rounded by channel) -> relu
///     conv -> quantize_linear -> dequantize_linear -> relu
Graph with_channel_roundings_as_nodes(Graph graph);

}  // namespace detent
