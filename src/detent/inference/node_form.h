#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/graph.h"
#include "detent/graph/traits.h"
#include "detent/inference/block_sums.h"
#include "detent/inference/code_type.h"
#include "detent/inference/requantize.h"

namespace detent {

/// Sums of products, of a weighted sum. With x and w counted from their zero points,
///
///     sum[c] = bias[c] + sum_i x_i w_ci          value = sum[c] * scale[c]
///
/// in 32-bit integers; zero padding adds x = 0.
struct SumForm {
  CodeType input;
  Tensor weight;                       // int32, shape of the node's weight, counted from the zero point
  std::vector<int32_t> bias;           // one an output channel
  std::vector<float> scale;            // of a sum, likewise: input scale * weight scale
  std::optional<CodeType> output;      // none: the result is the sums' values, in float
  std::vector<float> multiplier;       // scale / output scale; with Requantization::kFloat
  std::vector<FixedMultiplier> fixed;  // the same; with Requantization::kFixedPoint
  /// Bound on the magnitude of any partial sum of products and bias, in any order.
  int64_t bound = 0;

  /// Code of the result in channel c.
  int32_t requantized(int32_t sum, size_t c) const {
    if (fixed.empty()) return output->at(static_cast<float>(sum) * multiplier[c]);
    return output->at(int64_t{fixed_product(sum, fixed[c])});
  }
  /// Value of the result in channel c.
  float result(int32_t sum, size_t c) const {
    return output ? output->value(requantized(sum, c)) : static_cast<float>(sum) * scale[c];
  }
};

/// Sums of the weights above and of those below 0.
struct SignedSums {
  int64_t above;
  int64_t below;
};
SignedSums signed_sums(std::span<const int32_t> weights);

/// An elementwise function; `codes[code - input.low]` is the result's code.
struct TableForm {
  CodeType input;
  CodeType output;
  std::vector<int32_t> codes;
};

/// In float32 by IEEE 754.
float pair_result(PairOperation operation, float a, float b);

/// A function of two tensors. In floats as dequantizing, computing and quantizing does; in fixed point as
/// TensorFlow Lite does: sums are formed of codes times 2^left_shift, each brought to twice the larger scale.
struct PairForm {
  PairOperation operation = PairOperation::kAdd;
  CodeType a;
  CodeType b;
  CodeType output;
  bool fixed_point = false;
  int left_shift = 0;
  FixedMultiplier fixed_a = {};
  FixedMultiplier fixed_b = {};
  FixedMultiplier fixed_output = {};

  bool operator==(const PairForm&) const = default;
  int32_t code(int32_t code_a, int32_t code_b) const;
};

/// Matrix products of two inputs, in 32-bit integers: sums of products of codes counted from their zero
/// points. There is one where kDepth products, the longest sums to be expected, fit.
struct ProductForm {
  static constexpr int64_t kDepth = int64_t{1} << 15;

  CodeType a;
  CodeType b;
  std::optional<CodeType> output;        // none: the result is the sums' values, in float
  float scale = 1;                       // of a sum: a.scale * b.scale
  float multiplier = 1;                  // scale / output scale
  std::optional<FixedMultiplier> fixed;  // the same; with Requantization::kFixedPoint
  int64_t largest_product = 0;           // in magnitude

  /// Whether sums of `depth` products stay within 32 bits.
  bool fits_depth(int64_t depth) const;
  /// Throws Error naming the node otherwise.
  void check_depth(const Node& node, int64_t depth) const;
  int32_t requantized(int32_t sum) const {
    if (fixed) return output->at(int64_t{fixed_product(sum, *fixed)});
    return output->at(static_cast<float>(sum) * multiplier);
  }
  /// Value of the result.
  float result(int32_t sum) const {
    return output ? output->value(requantized(sum)) : static_cast<float>(sum) * scale;
  }
};

/// Means over windows. A sum S over a window that counts n elements has the mean
/// S / n * input scale.
struct AverageForm {
  CodeType input;
  CodeType output;
  bool fixed_point = false;

  /// `sum` of `count` elements, counted from the zero point.
  int32_t code(int32_t sum, int64_t count) const;
  /// Fixed-point multiplier of sums of `count` elements. Throws Error where that does not fit.
  FixedMultiplier multiplier(int64_t count) const;
};

using NodeForm = std::variant<SumForm, ProductForm, TableForm, PairForm, AverageForm, BlockSumForm>;

/// The node's computation on codes; nullopt when one of the operands that it needs has no code type, or when
/// it has no form of its own because it only moves codes or compares them. Throws Error naming the operand
/// where its sums could exceed 32 bits or a multiplier does not fit.
std::optional<NodeForm> node_form(const Node& node, Requantization requantization);

/// Whether result elements are input elements or zeros: movements, maxima, max(x, 0).
bool moves_codes(const Node& node);
/// The type of what a node makes of codes of `type` that it moves: zeros may come between signs.
CodeType moved_type(const Node& node, const CodeType& type);

/// The form of a weighted sum; what node_form says of it.
std::optional<SumForm> sum_form(const WeightedSum& sum, const Node& node, Requantization requantization);

/// The rounding of a weight of which some scales are larger than before.
struct RaisedScales {
  QuantSpec rounding;
  int64_t raised = 0;  // scales
  double factor = 1;   // the largest that one was raised by
};

/// Scales with which a weighted sum's biases and sums fit into 32 bits; nullopt where they do, or where the
/// node has no SumForm. A bias is a number of steps of input scale x weight scale: where the weights of a
/// channel are nearly 0, as of one that a batch norm switched off, these steps are too small, and larger ones
/// lose nothing that matters beside the bias. Sums of products that are beyond 32 bits by less than a bit
/// lose that bit; by more, the widths are too large for them, which node_form refuses.
std::optional<RaisedScales> raised_to_fit(const Node& node);
/// Sets these scales on a layer's weight, if needed.
void fit_weight_scales(Node& layer);

}  // namespace detent
