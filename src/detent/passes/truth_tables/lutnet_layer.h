#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "detent/graph/executor.h"
#include "detent/graph/graph.h"
#include "detent/passes/truth_tables/lutnet_tables.h"

namespace detent {

/// Options of turning a layer of signs into tables.
struct LutnetLayer {
  int64_t table_inputs = 4;
  double pruned_share = 0;      // of the connections, those with the smallest weights
  bool keep_pruned = true;      // in tables that read what a pruned connection read
  int64_t amplitude_width = 0;  // bits of what a table adds, in units of a power of two; 0: float32
  bool binarize = true;         // or train real values first
};

/// Connections of a layer before and after: one XNOR per level of input and weights.
struct LutnetConnections {
  int64_t kept = 0;
  int64_t all = 0;
};

/// Why the node cannot become a layer of tables; "" if it can.
std::string lutnet_obstacle(const Node& layer, const LutnetLayer& wanted);

/// Makes a layer whose weights and inputs are (residual) binary one of tables,
/// operators/truth_tables/schema_lutnet.cc. The products of signs become tables of these and of inputs that
/// `draw` chooses, which do not matter yet: but for what is pruned, and the rounding of amplitudes, the layer
/// computes what it did before. Parameters keep their names where they stay: bias.
LutnetConnections make_lutnet_layer(Node& layer, const LutnetLayer& wanted, std::mt19937_64& draw);

/// The power of two of which the largest amplitude takes `width` bits; 0: none.
double amplitude_unit(const Tensor& amplitude, int64_t width);

/// Steps between a layer and the next signs: batch norms and clamps, each monotone per channel.
class ElementSteps {
 public:
  /// `steps` in the order of execution; `rank` is that of what they take.
  ElementSteps(const std::vector<const Node*>& steps, int64_t channels, size_t rank, Executor& executor);

  /// Results for rows of one number per channel.
  std::vector<float> run(const std::vector<float>& rows) const;
  int64_t channels() const { return channels_; }

 private:
  int64_t channels_;
  size_t rank_;
  std::unique_ptr<const Program> program_;  // nullptr: nothing stands between
};

/// The sums from which on the residual code after the steps is 1, 2, ...: [outputs, 2^levels - 1]. Tables of
/// outputs whose code falls are negated.
std::vector<int32_t> find_thresholds(IntegerTables& tables, const ElementSteps& steps,
                                     const std::vector<float>& gamma);

}  // namespace detent
