#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/text_table.h"
#include "detent/core/value.h"
#include "detent/graph/executor.h"
#include "detent/graph/graph.h"
#include "detent/inference/accumulated_sums.h"

namespace detent {

/// The narrowest integer accumulator of a layer on codes that no input can overflow.
struct GuaranteedWidth {
  std::string node;
  int width = 0;
};
/// Widths for layers on codes, in execution order.
std::vector<GuaranteedWidth> guaranteed_widths(const Graph& graph);
/// "15 (conv1) to 18 bits (fc) hold every sum of 4 layers"; "" where no layer has codes.
std::string guaranteed_widths_text(const Graph& graph);

/// Overflows in a layer's accumulators during a run.
struct AccumulatedLayer {
  std::string node;
  std::string accumulator;
  std::optional<int> guaranteed;  // as GuaranteedWidth; none of a layer on values
  int64_t sums = 0;
  int64_t additions = 0;
  AccumulatorOverflows overflows;
};

/// Layers that have accumulators, in execution order. `program` is that of the graph.
std::vector<AccumulatedLayer> accumulated_layers(const Graph& graph, const Program& program,
                                                 std::span<const Tensor> inputs);
TextTable accumulated_layers_table(std::span<const AccumulatedLayer> layers);
/// "accumulators of 4 layers, 64 samples: no overflow", or how many sums overflow in how many layers.
std::string accumulated_layers_text(std::span<const AccumulatedLayer> layers, int64_t samples);
List accumulated_layers_list(std::span<const AccumulatedLayer> layers);

}  // namespace detent
