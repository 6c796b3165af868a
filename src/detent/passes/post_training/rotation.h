#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/graph/graph.h"
#include "detent/passes/post_training/static_quantize_options.h"

namespace detent {

// H, the Hadamard matrix of `block` rows (a power of two) over the root of that, has H = H^T = H^-1, so
// (W H) (H x) = W x. In Sylvester's order: the sign of element (i, j) is that of (-1)^(bits set in i and j).

/// float32 [block, block].
Tensor hadamard_matrix(int64_t block);

/// W H on each block of a row of `weight` (float32, of two dimensions, the last a multiple of `block`), in
/// double.
Tensor with_rotated_inputs(const Tensor& weight, int64_t block);
/// H W on each block along dimension 0, of a weight or a bias.
Tensor with_rotated_outputs(const Tensor& weight, int64_t block);

/// Default block size for rotations in `passes`: the elements that share a scale in the activations of
/// `options`, else in its weights, if a power of two.
void fit_rotated_blocks(Table& passes, const StaticQuantizeOptions& options);

/// A value read by linear layers to be rotated, a block of its last dimension at a time.
struct Rotation {
  NodeInput value;
  size_t rank = 0;                 // of the value
  int64_t features = 0;            // size of its last dimension
  std::vector<std::string> sinks;  // layers that read it
  /// The linear layer whose outputs are rotated instead, if all consumers in between only move blocks or add
  /// them with factors. "": none, nodes rotate the value.
  std::string source = {};
};

struct Rotations {
  std::vector<Rotation> found;
  std::vector<std::string> obstacles;  // "NODE: why its input stays as it is"
};

/// For blocks of `block` elements.
Rotations find_rotations(const Graph& graph, int64_t block);

/// The network with rotated values and weights; outputs stay equal.
Graph with_rotations(const Graph& graph, const std::vector<Rotation>& rotations, int64_t block);

}  // namespace detent
