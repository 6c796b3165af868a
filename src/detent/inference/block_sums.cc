#include "detent/inference/block_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "detent/core/parallel.h"
#include "detent/formats/blocks/fixed_scale_rounding.h"
#include "detent/graph/accumulator.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/windows.h"
#include "detent/kernels/product.h"

namespace detent {
namespace {

constexpr int32_t kLeastWeight = -128;
constexpr int32_t kMostWeight = 127;
constexpr int kMostExponent = 64;  // of scales, so that no sum of a layer is infinite

/// A layer's weights as a matrix [output, position of the window; input of a group].
Tensor by_position(const Tensor& weight) {
  const int64_t outputs = weight.dim(0);
  const int64_t inputs = weight.dim(1);
  const int64_t positions = element_count({weight.shape().begin() + 2, weight.shape().end()});
  Tensor result(DType::kFloat32, {outputs * positions, inputs});
  const float* from = weight.values<float>().data();
  float* const to = result.values<float>().data();
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t i = 0; i < inputs; ++i) {
      for (int64_t p = 0; p < positions; ++p) to[(o * positions + p) * inputs + i] = *from++;
    }
  }
  return result;
}

/// Inputs that share a scale; nullopt where blocks do not run along the inputs alone.
std::optional<int64_t> inputs_of_block(const QuantSpec& rounding, const Tensor& weight) {
  if (rounding.granularity == Granularity::kGroup) {
    const int64_t inputs = weight.dim(1);
    const bool has_positions = weight.numel() != weight.dim(0) * inputs;
    if (has_positions || (rounding.axis != 0 && rounding.axis != -weight.rank())) return std::nullopt;
    return std::min(*rounding.group_size, inputs);
  }
  const int64_t axis = rounding.block_axis.value_or(-1);
  if ((axis < 0 ? axis + weight.rank() : axis) != 1) return std::nullopt;
  const int64_t inputs = weight.dim(1);
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

/// The largest power of two that a number other than 0 is a multiple of, as its exponent.
int own_exponent(float value) {
  constexpr uint32_t kFractionBits = 23;
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t exponent = bits >> kFractionBits & 255U;
  const uint32_t fraction = bits & ((1U << kFractionBits) - 1);
  const uint32_t whole = exponent == 0 ? fraction : fraction | 1U << kFractionBits;
  constexpr int kLeast = -149;
  return std::countr_zero(whole) + static_cast<int>(std::max(exponent, 1U)) - 1 + kLeast;
}

/// That of all values; the largest exponent where all are 0.
int common_exponent(std::span<const float> values) {
  int exponent = std::numeric_limits<int>::max();
  for (const float value : values) {
    if (value != 0) exponent = std::min(exponent, own_exponent(value));
  }
  return exponent;
}

/// Gives the integers of a block's weights, and their scale; false where these are too large.
bool take_block(std::span<const float> values, std::span<int32_t> weights, float& scale) {
  constexpr int kLeastExponent = -126;
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) return false;
  const int exponent = std::clamp(common_exponent(values), kLeastExponent, kMostExponent);
  scale = std::ldexp(1.0F, exponent);
  const float steps_of_one = std::ldexp(1.0F, -exponent);
  for (size_t i = 0; i < values.size(); ++i) {
    const float steps = values[i] * steps_of_one;
    if (!(std::fabs(steps) <= kMostWeight) || steps != std::nearbyint(steps)) return false;
    weights[i] = static_cast<int32_t>(steps);
  }
  return true;
}

/// Weights [..., input of a group].
bool take_weights(const Tensor& values, BlockSumForm& form) {
  const auto from = values.values<float>();
  const auto to = form.weight.values<int32_t>();
  const auto inputs = static_cast<size_t>(form.inputs());
  const auto block = static_cast<size_t>(form.block);
  form.scale.clear();
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

/// Bound of the magnitude of sums over a block.
int64_t largest_block_sum(const BlockSumForm& form) {
  return int64_t{std::max(form.input.high - form.input.zero_point, form.input.zero_point - form.input.low)} *
         -kLeastWeight * form.block;
}

/// Weights of which blocks have a power of two for a scale.
bool take_powers(const QuantSpec& rounding, const Tensor& weight, BlockSumForm& form) {
  return take_weights(fake_quantize(rounding, weight), form);
}

/// Weights of which blocks have a scale of at most four binary places, and all together another: `factor`.
bool take_scaled(const QuantSpec& rounding, const Tensor& weight, BlockSumForm& form, float& factor) {
  constexpr int32_t kMostOfScale = 15;
  const auto is_finite = [](float value) { return std::isfinite(value); };
  if (!std::ranges::all_of(weight.values<float>(), is_finite)) return false;
  const auto blocks = tensor_scaled_blocks(rounding, weight);
  if (!blocks || !take_weights(blocks->elements, form) || form.scale.size() != blocks->scales.size())
    return false;
  for (size_t b = 0; b < form.scale.size(); ++b) {
    const float scale = blocks->scales[b];
    if (scale != 0 && std::ldexp(scale, -own_exponent(scale)) > kMostOfScale) return false;
    form.scale[b] *= scale;
  }
  factor = blocks->tensor_scale;
  return true;
}

/// Weights of which groups are integers times a scale.
bool take_groups(const QuantSpec& rounding, const Tensor& weight, BlockSumForm& form) {
  const std::vector<CodeType> types = executed_types(rounding);
  const auto inputs = static_cast<size_t>(form.inputs());
  const auto block = static_cast<size_t>(form.block);
  const auto blocks = static_cast<size_t>(form.blocks());
  if (types.size() != static_cast<size_t>(form.outputs()) * blocks) return false;
  const auto from = weight.values<float>();
  const auto to = form.weight.values<int32_t>();
  form.scale.clear();
  for (const CodeType& type : types) {
    if (type.is_sign || !(type.scale <= std::ldexp(1.0F, kMostExponent))) return false;
    form.scale.push_back(type.scale);
  }
  for (size_t i = 0; i < from.size(); ++i) {
    const CodeType& type = types[i / inputs * blocks + i % inputs / block];
    to[i] = type.code(from[i]) - type.zero_point;
    if (to[i] < kLeastWeight || to[i] > kMostWeight) return false;
  }
  return true;
}

/// Sums over blocks as products of matrices: the weights of some outputs in a block times what windows read
/// for it, [input, window].
class BlockProducts {
 public:
  BlockProducts(const BlockSumForm& form, const Node& node, const Tensor& codes)
      : form_(form), codes_(codes), outputs_(form.outputs() / form.groups) {
    const Operand inputs[] = {Operand{codes.shape(), Value()}};
    shape_ = find_operator(node.op).infer(node, inputs).shape;
    if (trait<WeightedSum>(node)->spatial_dims > 0) columns_.emplace(node, codes.shape(), shape_);
    windows_ = columns_ ? columns_->windows() : codes.numel() / form.inputs();
    samples_ = columns_ ? codes.dim(0) : 1;
  }

  Tensor steps() const {
    Tensor result(DType::kFloat32, shape_);
    const int64_t output_parts = (outputs_ + kOutputs - 1) / kOutputs;  // of a group
    const int64_t window_parts = (windows_ + kWindows - 1) / kWindows;  // of a sample
    const int64_t parts = output_parts * window_parts;
    parallel_for(samples_ * form_.groups * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % output_parts * kOutputs;
        const int64_t window = i / output_parts % window_parts * kWindows;
        add(Part{.sample = i / parts / form_.groups,
                 .group = i / parts % form_.groups,
                 .first = first,
                 .outputs = std::min(kOutputs, outputs_ - first),
                 .window = window,
                 .windows = std::min(kWindows, windows_ - window)},
            result);
      }
    });
    return result;
  }

 private:
  static constexpr int64_t kOutputs = 64;
  static constexpr int64_t kWindows = 384;

  struct Part {
    int64_t sample, group;
    int64_t first, outputs;  // of a group
    int64_t window, windows;
  };

  void add(const Part& part, Tensor& result) const {
    constexpr int64_t kPadding = IntegerProduct::kPadding;
    const int64_t row = (part.windows + kPadding - 1) / kPadding * kPadding;
    std::vector<int32_t> read(static_cast<size_t>(form_.block * row));
    std::vector<int32_t> products(static_cast<size_t>(part.outputs * row));
    std::vector<float> sums(static_cast<size_t>(part.outputs * row));
    const int64_t output = part.group * outputs_ + part.first;
    const int64_t blocks = form_.positions() * form_.blocks();
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t position = b / form_.blocks();
      const int64_t input = b % form_.blocks() * form_.block;
      const int64_t depth = std::min(form_.block, form_.inputs() - input);
      for (int64_t i = 0; i < depth; ++i)
        read_windows(part, part.group * form_.inputs() + input + i, position, read.data() + i * row);
      std::ranges::fill(products, 0);
      add_product(
          IntegerProduct{.a = weights() + (output * form_.positions() + position) * form_.inputs() + input,
                         .a_row = form_.positions() * form_.inputs(),
                         .a_column = 1,
                         .b = read.data(),
                         .b_stride = row,
                         .c = products.data(),
                         .c_stride = row,
                         .rows = part.outputs,
                         .depth = depth,
                         .column_begin = 0,
                         .column_end = row});
      for (int64_t o = 0; o < part.outputs; ++o)
        add_scaled(form_.scale[static_cast<size_t>((output + o) * blocks + b)], products.data() + o * row,
                   sums.data() + o * row, row);
    }
    for (int64_t o = 0; o < part.outputs; ++o) write(part, output + o, sums.data() + o * row, result);
  }

  /// Reads a channel for the windows.
  void read_windows(const Part& part, int64_t channel, int64_t position, int32_t* to) const {
    const int32_t* const codes = codes_.values<int32_t>().data();
    if (columns_) {
      const int64_t plane = part.sample * codes_.dim(1) + channel;
      const int64_t size = codes_.numel() / codes_.dim(0) / codes_.dim(1);
      columns_->read(codes + plane * size, position, part.window, part.windows, form_.input.zero_point, to);
      return;
    }
    for (int64_t w = 0; w < part.windows; ++w)
      to[w] = codes[(part.window + w) * form_.inputs() + channel] - form_.input.zero_point;
  }

  void write(const Part& part, int64_t output, const float* sums, Tensor& result) const {
    float* const to = result.values<float>().data();
    const float start = form_.start[static_cast<size_t>(output)];
    for (int64_t w = 0; w < part.windows; ++w) {
      const int64_t window = part.window + w;
      const int64_t at = columns_ ? (part.sample * form_.outputs() + output) * windows_ + window
                                  : window * form_.outputs() + output;
      to[at] = std::fma(form_.multiplier, sums[w], start);
    }
  }

  const int32_t* weights() const { return form_.weight.values<int32_t>().data(); }

  const BlockSumForm& form_;
  const Tensor& codes_;
  int64_t outputs_;                       // of a group
  Shape shape_;                           // of the result
  std::optional<WindowColumns> columns_;  // none of a linear layer
  int64_t windows_ = 0;                   // of a sample; rows of a linear layer
  int64_t samples_ = 0;
};

}  // namespace

std::optional<BlockSumForm> block_sum_form(const Node& node) {
  const auto* sum = trait<WeightedSum>(node);
  if (sum == nullptr || sum->transposed || accumulator_of(node)) return std::nullopt;
  const std::optional<CodeType> input = executed_type(node, "data_in_0");
  const std::optional<CodeType> output = executed_type(node, "data_out_0");
  std::optional<QuantSpec> rounding = node.rounding("weight");
  if (!input || !rounding || (!output && node.find_quantization("data_out_0") != nullptr))
    return std::nullopt;
  const Tensor& tensor = node.find_parameter("weight")->tensor;
  const std::optional<int64_t> block = inputs_of_block(*rounding, tensor);
  const int64_t groups = sum->spatial_dims == 0 ? 1 : integer_attribute(node, "groups");
  if (!block || *block < (sum->spatial_dims == 0 ? 1 : kLeastConvolvedBlock)) return std::nullopt;
  const Tensor weight = by_position(tensor);
  rounding->block_axis = 1;
  const int64_t positions = weight.dim(0) / tensor.dim(0);
  BlockSumForm form{.input = *input,
                    .weight = Tensor(DType::kInt32, {tensor.dim(0), positions, tensor.dim(1)}),
                    .block = *block,
                    .groups = groups,
                    .scale = {},
                    .start = {},
                    .output = output};
  if (largest_block_sum(form) > std::numeric_limits<int32_t>::max()) return std::nullopt;
  float factor = 1;
  const bool is_taken =
      rounding->granularity == Granularity::kGroup
          ? take_groups(*rounding, weight, form)
          : take_powers(*rounding, weight, form) || take_scaled(*rounding, weight, form, factor);
  if (!is_taken) return std::nullopt;
  const float unit = output ? output->scale : 1;
  form.multiplier = input->scale * factor / unit;
  if (!std::isfinite(form.multiplier)) return std::nullopt;
  const Parameter* bias = node.find_parameter("bias");
  for (int64_t c = 0; c < form.outputs(); ++c)
    form.start.push_back(bias == nullptr ? 0 : bias->tensor.values<float>()[static_cast<size_t>(c)] / unit);
  return form;
}

Tensor block_sum_steps(const BlockSumForm& form, const Node& node, const Tensor& codes) {
  return BlockProducts(form, node, codes).steps();
}

}  // namespace detent
