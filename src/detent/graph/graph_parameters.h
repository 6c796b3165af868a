#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/random_numbers.h"
#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Tensors by PyTorch's key ("seq_blocks.0.weight"), in module order.
using StateDict = std::vector<std::pair<std::string, Tensor>>;

/// All parameters and running statistics, sharing the graph's storage. Tied weights appear under the key of
/// each node; owned parameters of a quantizer once, under that of its first operand
/// ("seq_blocks.0.weight_scale").
StateDict state_dict(const Graph& graph);

/// Copies `state` into the graph's parameters. Throws Error that lists every missing, extra and misshapen
/// entry before anything is changed. `source` (a file name) begins the message. Extra "num_batches_tracked"
/// counters are no fault, and of tied weights one key is enough; float16, bfloat16 and float64 entries are
/// converted.
void load_state_dict(Graph& graph, const StateDict& state, const std::string& source);

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

/// Fingerprint of structure, parameters and quantization: equal ones compute the same, except for collisions
/// (1 in 2^64). The same in every build (core/xxh64.h): files hold it.
uint64_t network_fingerprint(const Graph& graph);

}  // namespace detent
