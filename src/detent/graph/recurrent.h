#pragma once

#include <array>
#include <string>
#include <vector>

#include "detent/graph/graph.h"

namespace detent {

/// A function of a recurrent layer's gates or state.
struct RecurrentActivation {
  enum class Function {
    kSigmoid,
    kTanh,
    kRelu,
    kElu,
    kSoftsign,
    kSoftplus,
    kAffine,
    kLeakyRelu,
    kScaledTanh,
    kThresholdedRelu,
    kHardSigmoid,
  };
  Function function = Function::kTanh;
  double alpha = 0;
  double beta = 0;
};
constexpr std::array<const char*, 11> enum_names(RecurrentActivation::Function) {
  return {"sigmoid",     "tanh",   "relu",       "elu",         "softsign",
          "softplus",    "affine", "leaky_relu", "scaled_tanh", "thresholded_relu",
          "hard_sigmoid"};
}
/// How many of alpha and beta the function has, and what they are unless given (ONNX's defaults).
struct RecurrentActivationDefaults {
  size_t count;
  double alpha;
  double beta;
};
RecurrentActivationDefaults activation_defaults(RecurrentActivation::Function function);

/// The attribute `activations` of a recurrent node, `count` of them: names, apart by spaces, each with its
/// numbers, if any: "leaky_relu:0.1 hard_sigmoid:0.2:0.5". Throws Error when it is something else.
std::vector<RecurrentActivation> recurrent_activations(const Node& node, size_t count);

/// Whether the operand holds weights of a recurrent layer, [directions, rows, columns], each row of which is
/// multiplied with an input or a state and summed.
bool is_recurrent_weight(const Node& node, size_t input);

/// 2 of a bidirectional node, else 1.
int64_t recurrent_directions(const Node& node);

}  // namespace detent
