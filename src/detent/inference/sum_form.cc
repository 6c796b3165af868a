#include "detent/inference/node_form.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "detent/core/error.h"
#include "detent/formats/verbs.h"
#include "detent/graph/node_names.h"

namespace detent {
namespace {

constexpr auto kLargestSum = int64_t{std::numeric_limits<int32_t>::max()};

/// Groups that hold all weights of a channel are channels.
bool has_whole_channels(const QuantSpec& rounding, const Tensor& weight, int64_t axis) {
  return rounding.granularity == Granularity::kGroup && weight.rank() > 1 &&
         weight.numel() <= *rounding.group_size * weight.dim(axis);
}

/// The code type of each position of dimension `channel_dim`, or of the whole weight.
std::optional<std::vector<CodeType>> weight_types(const Node& node, int64_t channel_dim) {
  const std::optional<QuantSpec> rounding = node.rounding("weight");
  if (!rounding) return std::nullopt;
  const Tensor& weight = node.find_parameter("weight")->tensor;
  const int64_t axis = rounding->axis < 0 ? rounding->axis + weight.rank() : rounding->axis;
  const bool has_groups = rounding->granularity == Granularity::kGroup;
  if (has_groups && !has_whole_channels(*rounding, weight, axis)) return std::nullopt;
  const bool per_channel = has_groups || rounding->granularity == Granularity::kChannel;
  if (per_channel && axis != channel_dim) return std::nullopt;
  const size_t count = per_channel ? static_cast<size_t>(weight.dim(axis)) : 1;
  std::vector<CodeType> types = executed_types(*rounding);
  if (types.empty() || (types.size() != 1 && types.size() != count)) return std::nullopt;
  return types;
}

/// The channels of a weight, and the type of the weights of each.
class TypedChannels : public WeightChannels {
 public:
  TypedChannels(const Node& node, std::vector<CodeType> types)
      : WeightChannels(node), types_(std::move(types)) {}

  const CodeType& type(int64_t output) const {
    return types_.size() == 1 ? types_[0] : types_[static_cast<size_t>(row(output))];
  }
  /// Calls `visit(output, begin, end)` for each run of adjacent elements that belong to one output channel.
  template <class Visit>
  void for_each_run(const Tensor& weight, bool transposed, const Visit& visit) const {
    const auto first_of_run = weight.shape().begin() + (transposed ? 2 : 1);
    const int64_t run = element_count({first_of_run, weight.shape().end()});
    for (int64_t i = 0; i < weight.numel(); i += run)
      visit(output(i), static_cast<size_t>(i), static_cast<size_t>(i + run));
  }

 private:
  std::vector<CodeType> types_;
};

int32_t bias_code(const Node& node, float bias, float scale) {
  const double code = std::nearbyint(static_cast<double>(bias) / static_cast<double>(scale));
  if (!(std::fabs(code) <= static_cast<double>(kLargestSum))) {
    fail(
        "node \"{}\" ({}): a bias of {} is {} steps of {}, the product of the scales of data_in_0 and "
        "weight: "
        "it does not fit into 32 bits",
        node.name, node.op, bias, code, scale);
  }
  return static_cast<int32_t>(code);
}

/// The sums of a channel's positive and of its negative terms at their largest.
struct ChannelBound {
  int64_t most = 0;
  int64_t least = 0;

  int64_t magnitude() const { return std::max(most, -least); }
};

/// Bounds of the products, in each output channel. Inputs, counted from their zero point, reach from `low` <=
/// 0 to `high` >= 0.
std::vector<ChannelBound> product_bounds(const Node& node, const CodeType& input, const Tensor& weight,
                                         const TypedChannels& channels) {
  std::vector<ChannelBound> bounds(static_cast<size_t>(channels.outputs()));
  const int64_t low = input.low - input.zero_point;
  const int64_t high = input.high - input.zero_point;
  const auto weights = weight.values<int32_t>();
  const bool transposed = trait<WeightedSum>(node)->transposed;
  channels.for_each_run(weight, transposed, [&](int64_t output, size_t begin, size_t end) {
    const SignedSums sums = signed_sums(weights.subspan(begin, end - begin));
    ChannelBound& bound = bounds[static_cast<size_t>(output)];
    bound.most += sums.above * high + sums.below * low;
    bound.least += sums.above * low + sums.below * high;
  });
  return bounds;
}

int64_t sum_bound(const Node& node, const SumForm& form, const TypedChannels& channels) {
  const std::vector<ChannelBound> products = product_bounds(node, form.input, form.weight, channels);
  int64_t bound = 0;
  for (size_t c = 0; c < products.size(); ++c) {
    const ChannelBound sums = {products[c].most + std::max(form.bias[c], 0),
                               products[c].least + std::min(form.bias[c], 0)};
    bound = std::max(bound, sums.magnitude());
    if (bound <= kLargestSum) continue;
    fail(
        "node \"{}\" ({}): sums of output channel {} could reach {}, beyond the 32 bits of an accumulator: "
        "give its weights or its inputs fewer bits",
        node.name, node.op, c, bound);
  }
  return bound;
}

/// Weights as integers, counted from the zero point of their channel.
Tensor weight_codes(const Tensor& weight, bool transposed, const TypedChannels& channels) {
  Tensor result(DType::kInt32, weight.shape());
  const auto values = weight.values<float>();
  const auto codes = result.values<int32_t>();
  channels.for_each_run(weight, transposed, [&](int64_t output, size_t begin, size_t end) {
    const CodeType type = channels.type(output);
    for (size_t i = begin; i < end; ++i) codes[i] = type.code(values[i]) - type.zero_point;
  });
  return result;
}

void set_multipliers(const Node& node, SumForm& form, Requantization requantization) {
  for (const float scale : form.scale) {
    if (requantization == Requantization::kFloat) {
      form.multiplier.push_back(scale / form.output->scale);
      continue;
    }
    try {
      form.fixed.push_back(
          FixedMultiplier::of(static_cast<double>(scale) / static_cast<double>(form.output->scale)));
    } catch (const Error& error) {
      throw node_error(node, error);
    }
  }
}

}  // namespace

std::optional<SumForm> sum_form(const WeightedSum& sum, const Node& node, Requantization requantization) {
  const std::optional<CodeType> input = executed_type(node, "data_in_0");
  const std::optional<std::vector<CodeType>> types = weight_types(node, sum.output_axis());
  if (!input || !types) return std::nullopt;
  if (node.find_quantization("data_out_0") != nullptr && !executed_type(node, "data_out_0"))
    return std::nullopt;
  const TypedChannels channels(node, *types);
  const Tensor& weight = node.find_parameter("weight")->tensor;
  SumForm form{.input = *input,
               .weight = weight_codes(weight, sum.transposed, channels),
               .bias = {},
               .scale = {},
               .output = executed_type(node, "data_out_0"),
               .multiplier = {},
               .fixed = {}};
  const Parameter* bias = node.find_parameter("bias");
  for (int64_t c = 0; c < channels.outputs(); ++c) {
    form.scale.push_back(input->scale * channels.type(c).scale);
    const float* value = bias == nullptr ? nullptr : &bias->tensor.values<float>()[static_cast<size_t>(c)];
    form.bias.push_back(value == nullptr ? 0 : bias_code(node, *value, form.scale.back()));
  }
  form.bound = sum_bound(node, form, channels);
  if (form.output) set_multipliers(node, form, requantization);
  return form;
}

namespace {

/// The factor that an output channel's scale must be raised by at least, to be tried again: 1 where bias and
/// sums fit.
double factor_to_fit(double bias, double step, const ChannelBound& products) {
  constexpr double kMost = static_cast<double>(kLargestSum);
  constexpr double kRoomForRounding = 1 - 0x1p-10;
  const double steps = std::fabs(std::nearbyint(bias / step));
  const double sums = steps + static_cast<double>(products.magnitude());
  const bool is_beyond_a_bit = static_cast<double>(products.magnitude()) > 2 * kMost;
  if (sums <= kMost || is_beyond_a_bit || !std::isfinite(sums)) return 1;
  // A bias takes half of the range then: bias correction may add to it.
  return std::max(sums / (kMost * kRoomForRounding), steps / (kMost / 2));
}

/// Whether bias and sums fit whatever the weights are.
bool fits_any_weights(const Node& node, const CodeType& input, const TypedChannels& channels) {
  const auto largest = [](const CodeType& type) {
    return static_cast<double>(
        std::max(int64_t{type.high} - type.zero_point, int64_t{type.zero_point} - type.low));
  };
  const int64_t inputs = node.find_parameter("weight")->tensor.numel() / channels.outputs();
  const double products = static_cast<double>(inputs) * largest(input);
  const Parameter* bias = node.find_parameter("bias");
  for (int64_t c = 0; c < channels.outputs(); ++c) {
    const CodeType& type = channels.type(c);
    const double step = static_cast<double>(input.scale) * static_cast<double>(type.scale);
    const double value =
        bias == nullptr ? 0 : static_cast<double>(bias->tensor.values<float>()[static_cast<size_t>(c)]);
    const bool fits =
        products * largest(type) + std::fabs(value) / step + 1 <= static_cast<double>(kLargestSum);
    if (!fits || step < static_cast<double>(std::numeric_limits<float>::min())) return false;
  }
  return true;
}

/// Weight scales, each with what the channels that share it need.
std::vector<double> factors_to_fit(const Node& node, const CodeType& input, const TypedChannels& channels,
                                   size_t scales) {
  const Tensor& weight = node.find_parameter("weight")->tensor;
  const Tensor codes = weight_codes(weight, trait<WeightedSum>(node)->transposed, channels);
  const std::vector<ChannelBound> products = product_bounds(node, input, codes, channels);
  const Parameter* bias = node.find_parameter("bias");
  std::vector<double> factors(scales, 1.0);
  for (int64_t c = 0; c < channels.outputs(); ++c) {
    const auto at = static_cast<size_t>(c);
    const double value = bias == nullptr ? 0 : static_cast<double>(bias->tensor.values<float>()[at]);
    const double step = static_cast<double>(input.scale) * static_cast<double>(channels.type(c).scale);
    double& factor = factors[scales == 1 ? 0 : static_cast<size_t>(channels.row(c))];
    factor = std::max(factor, factor_to_fit(value, step, products[at]));
    // Steps that float32 holds with all their digits.
    factor = std::max(factor, static_cast<double>(std::numeric_limits<float>::min()) / step);
  }
  return factors;
}

}  // namespace

std::optional<RaisedScales> raised_to_fit(const Node& node) {
  constexpr int kMostTries = 100;         // rounding may leave a little over: the second is rare
  constexpr double kMostScale = 0x1p110;  // all codes have finite values
  const auto* sum = trait<WeightedSum>(node);
  if (sum == nullptr || node.find_parameter("weight") == nullptr) return std::nullopt;
  const std::optional<CodeType> input = executed_type(node, "data_in_0");
  std::optional<std::vector<CodeType>> types = weight_types(node, sum->output_axis());
  if (!input || !types || fits_any_weights(node, *input, TypedChannels(node, *types))) return std::nullopt;
  RaisedScales result{.rounding = *node.rounding("weight")};
  if (!integer_codes(result.rounding.format)) return std::nullopt;  // signs, without a scale
  GivenScales given = given_scales(result.rounding.format);
  const std::vector<float> before = given.scales;
  for (int tries = 0; tries < kMostTries; ++tries) {
    const std::vector<double> factors =
        factors_to_fit(node, *input, TypedChannels(node, *types), types->size());
    if (std::ranges::all_of(factors, [](double factor) { return factor == 1; })) break;
    for (size_t i = 0; i < factors.size(); ++i) {
      CodeType& type = (*types)[i];
      const double raised = std::min(static_cast<double>(type.scale) * factors[i], kMostScale);
      if (factors[i] > 1) type.scale = std::nextafter(static_cast<float>(raised), HUGE_VALF);
    }
  }
  for (size_t i = 0; i < before.size(); ++i) {
    given.scales[i] = (*types)[i].scale;
    if (given.scales[i] == before[i]) continue;
    ++result.raised;
    result.factor =
        std::max(result.factor, static_cast<double>(given.scales[i]) / static_cast<double>(before[i]));
  }
  result.rounding.format = with_scales(result.rounding.format, std::move(given));
  return result.raised > 0 ? std::optional(std::move(result)) : std::nullopt;
}

void fit_weight_scales(Node& layer) {
  if (auto raised = raised_to_fit(layer)) layer.quantization["weight"] = std::move(raised->rounding);
}

}  // namespace detent
