#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Labels of dimensions: letters, and -1, -2, ... for those of the ellipsis, from the last on.
using EinsumLabels = std::vector<int>;

/// An equation of tensors whose shapes are known.
struct EinsumDims {
  std::vector<EinsumLabels> inputs;  // a label a dimension
  EinsumLabels result;               // each once
  std::map<int, int64_t> sizes;      // of all labels; inputs that have 1 repeat
};

/// Parses "ab,b...->a", with spaces anywhere. Without a result that is the ellipsis, then the letters that
/// occur once, in the order of the alphabet. Sizes may be open. Throws Error where the text is no equation,
/// or one that does not fit the inputs.
EinsumDims einsum_dims(const std::string& equation, std::span<const Shape> inputs);

/// One dimension of a `resize` node.
struct ResizedAxis {
  size_t dim = 0;
  int64_t from = 0;
  int64_t to = 0;
  double scale = 1;  // as given, or to / from
  /// The part of the dimension that is shown, of 0 to 1; attribute `coordinates` tf_crop_and_resize only.
  double start = 0;
  double end = 1;
};

/// The inputs of such a node that are given: a part (starts, then ends), and scales or sizes, all of the
/// dimensions that the attribute `dims` lists.
struct ResizeRequest {
  std::optional<std::vector<double>> roi = {};
  std::optional<std::vector<double>> scales = {};
  std::optional<std::vector<int64_t>> sizes = {};
};

/// The dimensions that the attribute `dims` lists, or all of a tensor of that rank.
std::vector<size_t> resized_dims(const Node& node, size_t rank);
/// Throws Error when the request does not fit the shape.
std::vector<ResizedAxis> resized_axes(const Node& node, const Shape& shape, const ResizeRequest& request);

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
