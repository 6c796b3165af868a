#pragma once

#include <functional>

#include "detent/core/mersenne_twister.h"
#include "detent/graph/graph.h"

namespace detent {

/// Fill a float32 tensor with random numbers.
struct ParameterDraws {
  std::function<void(Tensor& tensor, double from, double to)> uniform;
  std::function<void(Tensor& tensor, double deviation)> normal;
};

/// Fills all parameters as PyTorch's modules do when they are made, in node order, weight before bias: so the
/// same seed gives the same numbers as in Python. Linear and convolution layers: uniform in +-1 /
/// sqrt(fan_in) (He et al. 2015, arXiv:1502.01852, with a = sqrt(5)). Embedding: normal (see
/// MersenneTwister), the padding row zero. Normalisation: ones and zeros. Learned scales stay as they are.
void initialize_parameters(Graph& graph, const ParameterDraws& draws);
void initialize_parameters(Graph& graph, MersenneTwister& generator);

}  // namespace detent
