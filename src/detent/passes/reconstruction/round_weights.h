#pragma once

#include <functional>

#include "detent/formats/value_grid.h"
#include "detent/passes/pass.h"
#include "detent/passes/reconstruction/matrix.h"
#include "detent/passes/reconstruction/staged_run.h"

namespace detent {

/// Rounds some rows of a weight to values of the grid, in place. `gram`: the mean of x x^T over the inputs x
/// of these rows. `where` says which layer it is.
using RoundRows =
    std::function<void(const Matrix<double>& gram, const ValueGrid& grid, const std::string& where,
                       Tensor& weight, int64_t row_begin, int64_t row_end)>;

/// Replaces the weights of each linear layer and convolution whose weight has a spec by values that this spec
/// can hold, as `round` chooses them. First all specs get the parameters that the weights give them now, so
/// that the choice does not move them. Then layers are rounded in execution order, each with the inputs that
/// it gets from the network with the earlier layers already rounded and activations quantized. Reports each
/// layer's signal to noise ratio with weights rounded to nearest and as chosen. The network as it was becomes
/// context.float_network, unless there is one. Throws Error, and leaves the graph as it was, where no weight
/// has a spec and where a format's values cannot be known (ValueGrid).
void round_weights(Graph& graph, const CalibrationInputOptions& options, PassContext& context,
                   const RoundRows& round);

}  // namespace detent
