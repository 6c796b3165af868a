#include "detent/integer/block_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/formats/blocks/tensor_scaled_blocks.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

constexpr int64_t kExactInFloat = int64_t{1} << 24;
constexpr int32_t kMostWeight = 127;

/// Inputs that share a scale; nullopt where blocks do not run along the inputs alone.
std::optional<int64_t> inputs_of_block(const QuantSpec& rounding, int64_t inputs) {
  const int64_t axis = rounding.block_axis.value_or(1);
  if (axis != 1 && axis != -1) return std::nullopt;
  return std::visit(
      [&](const auto& format) -> std::optional<int64_t> {
        if constexpr (requires { format.blocks(); }) {
          const BlockSize size = format.blocks();
          if (!size.is_single()) return std::nullopt;
          return size.sizes[0] < 0 ? inputs : std::min(size.sizes[0], inputs);
        }
        return std::nullopt;
      },
      rounding.format);
}

/// The largest power of two that all of the values are multiples of, as its exponent; the largest exponent
/// where all are 0.
int common_exponent(std::span<const float> values) {
  int exponent = std::numeric_limits<int>::max();
  for (const float value : values) {
    if (value == 0) continue;
    int own = 0;
    auto fraction = static_cast<int32_t>(std::ldexp(std::frexp(value, &own), 24));
    own -= 24;
    for (; fraction % 2 == 0; fraction /= 2) ++own;
    exponent = std::min(exponent, own);
  }
  return exponent;
}

/// Gives the integers of a block's weights, and their scale; false where these are too large.
bool take_block(std::span<const float> values, std::span<int32_t> weights, float& scale) {
  constexpr int kLeastExponent = -126;
  constexpr int kMostExponent = 64;  // so that no sum of a layer is infinite
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) return false;
  const int exponent = std::clamp(common_exponent(values), kLeastExponent, kMostExponent);
  scale = std::ldexp(1.0F, exponent);
  for (size_t i = 0; i < values.size(); ++i) {
    const float steps = std::ldexp(values[i], -exponent);
    if (!(std::fabs(steps) <= kMostWeight) || steps != std::nearbyint(steps)) return false;
    weights[i] = static_cast<int32_t>(steps);
  }
  return true;
}

bool take_weights(const Tensor& values, BlockSumForm& form) {
  const auto from = values.values<float>();
  const auto to = form.weight.values<int32_t>();
  const auto inputs = static_cast<size_t>(form.inputs());
  const auto block = static_cast<size_t>(form.block);
  for (size_t row = 0; row < from.size(); row += inputs) {
    for (size_t first = 0; first < inputs; first += block) {
      const size_t count = std::min(block, inputs - first);
      form.scale.push_back(0);
      if (!take_block(from.subspan(row + first, count), to.subspan(row + first, count), form.scale.back()))
        return false;
    }
  }
  return true;
}

/// What no sum over a block is larger than in magnitude.
int64_t largest_block_sum(const BlockSumForm& form) {
  return int64_t{std::max(form.input.high - form.input.zero_point, form.input.zero_point - form.input.low)} *
         kMostWeight * form.block;
}

/// Weights of which blocks have a power of two for a scale.
bool take_powers(const QuantSpec& rounding, const Tensor& weight, BlockSumForm& form) {
  form.scale.clear();
  return take_weights(fake_quantize(rounding, weight), form);
}

/// Weights of which blocks have a scale of at most four binary places, and all together another: `factor`.
bool take_scaled(const QuantSpec& rounding, const Tensor& weight, BlockSumForm& form, float& factor) {
  constexpr int32_t kMostOfScale = 15;
  const auto is_finite = [](float value) { return std::isfinite(value); };
  if (!std::ranges::all_of(weight.values<float>(), is_finite)) return false;
  const auto blocks = tensor_scaled_blocks(rounding, weight);
  form.scale.clear();
  if (!blocks || !take_weights(blocks->elements, form) || form.scale.size() != blocks->scales.size())
    return false;
  for (size_t b = 0; b < form.scale.size(); ++b) {
    const float scale = blocks->scales[b];
    if (scale != 0 && std::ldexp(scale, -common_exponent({&scale, 1})) > kMostOfScale) return false;
    form.scale[b] *= scale;
  }
  factor = blocks->tensor_scale;
  return largest_block_sum(form) * kMostOfScale <= kExactInFloat;
}

}  // namespace

std::optional<BlockSumForm> block_sum_form(const Node& node) {
  const auto* sum = trait<WeightedSum>(node);
  if (sum == nullptr || sum->spatial_dims != 0) return std::nullopt;
  const std::optional<CodeType> input = executed_type(node, "data_in_0");
  const std::optional<CodeType> output = executed_type(node, "data_out_0");
  const std::optional<QuantSpec> rounding = node.rounding("weight");
  if (!input || !rounding || (!output && node.find_quantization("data_out_0") != nullptr))
    return std::nullopt;
  const Tensor& weight = node.find_parameter("weight")->tensor;
  const std::optional<int64_t> block = inputs_of_block(*rounding, weight.dim(1));
  if (!block || *block < 1) return std::nullopt;
  BlockSumForm form{.input = *input,
                    .weight = Tensor(DType::kInt32, weight.shape()),
                    .block = *block,
                    .scale = {},
                    .start = {},
                    .output = output};
  if (largest_block_sum(form) > kExactInFloat) return std::nullopt;
  float factor = 1;
  if (!take_powers(*rounding, weight, form) && !take_scaled(*rounding, weight, form, factor))
    return std::nullopt;
  const float unit = output ? output->scale : 1;
  form.multiplier = input->scale * factor / unit;
  if (!std::isfinite(form.multiplier)) return std::nullopt;
  const Parameter* bias = node.find_parameter("bias");
  for (int64_t c = 0; c < form.outputs(); ++c)
    form.start.push_back(bias == nullptr ? 0 : bias->tensor.values<float>()[static_cast<size_t>(c)] / unit);
  return form;
}

Tensor block_sum_steps(const BlockSumForm& form, const Tensor& codes) {
  constexpr int64_t kGrain = 16;
  const int64_t inputs = form.inputs();
  const int64_t outputs = form.outputs();
  const int64_t blocks = form.blocks();
  Shape shape = codes.shape();
  shape.back() = outputs;
  Tensor result(DType::kFloat32, std::move(shape));
  const int32_t* const x = codes.values<int32_t>().data();
  const int32_t* const w = form.weight.values<int32_t>().data();
  const auto y = result.values<float>();
  parallel_for(result.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c = i % outputs;
      const int32_t* const row = x + i / outputs * inputs;
      const int32_t* const weights = w + c * inputs;
      float sum = 0;
      for (int64_t b = 0; b < blocks; ++b) {
        int32_t products = 0;
        for (int64_t k = b * form.block; k < std::min(inputs, (b + 1) * form.block); ++k)
          products += (row[k] - form.input.zero_point) * weights[k];
        sum = std::fma(form.scale[static_cast<size_t>(c * blocks + b)], static_cast<float>(products), sum);
      }
      y[static_cast<size_t>(i)] = std::fma(form.multiplier, sum, form.start[static_cast<size_t>(c)]);
    }
  });
  return result;
}

}  // namespace detent
