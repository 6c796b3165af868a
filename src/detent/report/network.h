#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/graph/executor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Number of finite values in each of equal cells from the least to the greatest.
struct ValueHistogram {
  float low = 0;  // of the finite values; both 0 where there are none
  float high = 0;
  std::vector<int64_t> counts;  // the last cell holds `high` as well
  int64_t not_finite = 0;

  /// {"low", "high", "counts", "not_finite"}, as docs/results.md says.
  Table table() const;
};

/// `cells` is at least 1. Values that are all equal are in one cell.
ValueHistogram value_histogram(std::span<const float> values, size_t cells = 64);

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
