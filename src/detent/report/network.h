#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>

#include "detent/core/value.h"
#include "detent/graph/executor.h"
#include "detent/graph/graph.h"
#include "detent/report/histogram.h"

namespace detent {

/// By node and operand ("data_in_0", "data_out_0").
using OperandHistograms = std::map<std::pair<std::string, std::string>, ValueHistogram>;

/// Values of the quantized operands of `graph` while `program` runs `inputs`, before they are rounded.
/// `program` runs the graph itself, or the network in float that it came from.
OperandHistograms operand_histograms(const Graph& graph, const Program& program,
                                     std::span<const Tensor> inputs);

/// The network for programs and for report pages: name, and of each node its operator, what it reads, the
/// shape of its result, its quantized operands with formats, values of the formats and histograms, the size
/// of its parameters, and how integer execution computes it. docs/results.md has the keys. Weights are those
/// of `floats`, which has the same nodes or more, or, where it is null, of the graph.
Table network_value(const Graph& graph, const OperandHistograms& histograms, const Graph* floats = nullptr);

}  // namespace detent
