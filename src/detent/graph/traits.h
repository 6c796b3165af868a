#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "detent/graph/element_movement.h"

// Traits, which passes and executors use instead of operator names. An operator declares its own in
// operators/<family>/schema*.cc.

namespace detent {

struct Node;

/// Role of an operator in a run.
enum class OperatorRole {
  kComputes,
  kInput,     // an input of the network
  kOutput,    // the result of the network
  kConstant,  // a tensor that the network owns
  kNumber,    // gives a number, which depends on shapes alone
};

/// A layer: the result's channels are sums over the input's, times `weight`, plus `bias`; at each position,
/// or over a window of positions. Channels may fall into `groups` that do not mix.
struct WeightedSum {
  size_t spatial_dims = 0;    // of input, result and weight, after the channels
  int64_t channel_axis = -1;  // of input and result
  bool transposed = false;    // weight [in, out / groups, ...]; else [out, in / groups, ...]

  int64_t output_axis() const { return transposed ? 1 : 0; }     // of the weight
  int64_t reduction_axis() const { return transposed ? 0 : 1; }  // of the weight
};

/// min(max(x, low), high)
struct Clamp {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  /// max(x, 0): f(s x) = s f(x) for s > 0, and codes can be compared directly, since 0 has one.
  bool is_rectifier() const { return low == 0 && high == std::numeric_limits<double>::infinity(); }
  bool operator==(const Clamp&) const = default;
};

/// An elementwise function. Clamps are exact in float32; others round.
struct Unary {
  using Function = std::function<double(double)>;
  std::function<Function(const Node&)> function;  // in double, with the attributes of the node
  std::optional<Clamp> clamp = {};
};

/// A function of two elements, which broadcast. Of a slope b, kPrelu is a, or a b below 0.
enum class PairOperation { kAdd, kSub, kMul, kDiv, kPrelu };

/// [..., m, k] x [..., k, n] of two inputs, whose leading dimensions broadcast.
struct MatrixProduct {};

/// Every result element is an input element or zero.
struct Movement {
  /// Which ones, from the shapes of the tensors among the inputs and of the result. Empty of a view, whose
  /// result has the elements of its first input in their order.
  using Copies = std::function<std::vector<StridedCopy>(const Node&, std::span<const Shape> inputs,
                                                        const Shape& result)>;
  Copies copies = {};
  bool joins = false;  // takes elements of several inputs
  /// Instead, of an operator with several results: those of result `index`.
  using Parts = std::function<std::vector<StridedCopy>(const Node&, const Shape& input, size_t index)>;
  Parts parts = {};

  bool is_view() const { return !copies && !parts; }
};

/// Reduces windows of the positions of an input [N, C, ...].
struct Pooling {
  enum class Of { kLargest, kMean };
  Of of = Of::kLargest;
  bool adaptive = false;  // windows that give a result of the size `output_size`
  bool bordered = false;  // `padding` is what lies before each dimension, then what lies after each
};

/// Takes mean and variance off the input, or its root mean square, then scales (and shifts) by parameters.
struct Normalization {
  enum class Over {
    kBatch,         // a channel of all samples; in inference with the statistics kept in training
    kChannel,       // a channel of each sample
    kChannelGroup,  // some channels of each sample
    kLastDims,      // the dimensions `normalized_shape`
  };
  Over over = Over::kBatch;
};

/// Truth tables over the values of the input's elements (graph/table_layer.h); at each position, or over a
/// window of positions.
struct TableLayer {
  size_t spatial_dims = 0;  // of input and result, after the channels
};

/// exp(x) / sum of exp(x) along the dimension `dim`, or its logarithm.
struct Softmax {
  bool log = false;
};

/// The computation of an operator for passes and executors.
using Trait = std::variant<std::monostate, WeightedSum, MatrixProduct, Unary, PairOperation, Movement,
                           Pooling, Normalization, Softmax, TableLayer>;

// For unknown operators, which verify refuses, these return empty answers.

OperatorRole role_of(const Node& node);
const Trait& trait_of(const Node& node);

/// nullptr if the operator has another trait.
template <class T>
const T* trait(const Node& node) {
  return std::get_if<T>(&trait_of(node));
}

bool is_weighted_sum(const Node& node);
bool is_batch_norm(const Node& node);
/// Whether the result has the elements of the input in their order; but for what is random in training.
bool is_view(const Node& node);
bool is_pooling(const Node& node, Pooling::Of of);
/// nullptr when the node does not clamp.
const Clamp* clamp_of(const Node& node);
/// max(x, 0)
bool is_rectifier(const Node& node);
/// Dimension of the channels in a result of that rank: of a weighted sum, a layer of tables or a
/// normalization as declared, of others 1.
size_t channel_axis(const Node& node, size_t rank);

/// Which channels the elements of a weighted sum's weight connect, by row-major index.
class WeightChannels {
 public:
  explicit WeightChannels(const Node& layer);

  int64_t outputs() const { return transposed_ ? second_ * groups_ : first_; }
  int64_t output(int64_t index) const { return transposed_ ? grouped(index) : index / stride_; }
  int64_t input(int64_t index) const { return transposed_ ? index / stride_ : grouped(index); }
  /// Position along the weight's output axis of the weights that make up an output channel.
  int64_t row(int64_t output) const { return transposed_ ? output % second_ : output; }

 private:
  /// Dimension 0 falls into the groups, dimension 1 counts within one.
  int64_t grouped(int64_t index) const {
    return index / (stride_ * (first_ / groups_)) * second_ + index / window_ % second_;
  }

  bool transposed_;
  int64_t groups_;
  int64_t first_;  // sizes of dimensions 0 and 1
  int64_t second_;
  int64_t window_;  // elements that share the indices of both
  int64_t stride_;  // ... of dimension 0
};

/// The result for two numbers, in the arithmetic of their type.
template <class Number>
Number combined(PairOperation operation, Number a, Number b) {
  switch (operation) {
    case PairOperation::kAdd:
      return a + b;
    case PairOperation::kSub:
      return a - b;
    case PairOperation::kMul:
      return a * b;
    case PairOperation::kDiv:
      return a / b;
    case PairOperation::kPrelu:
      return a < 0 ? a * b : a;
  }
  return 0;
}

}  // namespace detent
