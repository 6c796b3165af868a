#include "detent/integer/node_form.h"

#include <array>
#include <cmath>
#include <limits>

#include "detent/core/error.h"
#include "detent/formats/affine.h"
#include "detent/graph/operators.h"
#include "detent/integer/unary_functions.h"

namespace detent {
namespace {

constexpr auto kLargest = int64_t{std::numeric_limits<int32_t>::max()};

std::optional<CodeType> operand_type(const Node& node, std::string_view operand) {
  const QuantSpec* spec = node.find_quantization(operand);
  return spec == nullptr ? std::nullopt : code_type(*spec);
}

/// The code type of each position of dimension `axis`, or of the whole weight.
struct WeightTypes {
  std::vector<CodeType> types;
  int64_t axis = 0;
};

std::optional<WeightTypes> weight_types(const Node& node, int64_t channel_dim) {
  const QuantSpec* spec = node.find_quantization("weight");
  const auto* affine = spec == nullptr ? nullptr : std::get_if<Affine>(&spec->format);
  if (affine == nullptr || spec->granularity == Granularity::kGroup) return std::nullopt;
  const bool per_channel = spec->granularity == Granularity::kChannel;
  const Tensor& weight = node.find_parameter("weight")->tensor;
  const int64_t axis = spec->axis < 0 ? spec->axis + weight.rank() : spec->axis;
  if (per_channel && axis != channel_dim) return std::nullopt;
  const size_t count = per_channel ? static_cast<size_t>(weight.dim(axis)) : 1;
  if (affine->scale.size() != 1 && affine->scale.size() != count) return std::nullopt;
  WeightTypes result{{}, channel_dim};
  for (size_t i = 0; i < affine->scale.size(); ++i) {
    QuantSpec one = *spec;
    auto& format = std::get<Affine>(one.format);
    format.scale = {affine->scale[i]};
    if (!affine->zero_point.empty()) format.zero_point = {affine->zero_point[i]};
    const std::optional<CodeType> type = code_type(one);
    if (!type) return std::nullopt;
    result.types.push_back(*type);
  }
  return result;
}

/// Which output channel and which weight type each weight belongs to. A weight [O, I, ...] has output
/// channels in dimension 0; one of a transposed convolution, [C, O / groups, ...], in dimension 1, the groups
/// one after the other in dimension 0.
class WeightLayout {
 public:
  WeightLayout(const Node& node, const WeightTypes& types)
      : shape_(node.find_parameter("weight")->tensor.shape()),
        inner_(element_count({shape_.begin() + types.axis + 1, shape_.end()})),
        per_group_(shape_[static_cast<size_t>(types.axis)]),
        type_count_(static_cast<int64_t>(types.types.size())),
        groups_(types.axis == 0 ? 1 : integer_attribute(node, "groups")) {}

  size_t channels() const { return static_cast<size_t>(per_group_ * groups_); }
  size_t channel(int64_t index) const {
    const int64_t group = groups_ == 1 ? 0 : index / (inner_ * per_group_) / (shape_[0] / groups_);
    return static_cast<size_t>(group * per_group_ + index / inner_ % per_group_);
  }
  size_t type(size_t channel) const {
    return type_count_ == 1 ? 0 : channel % static_cast<size_t>(type_count_);
  }

 private:
  Shape shape_;
  int64_t inner_;
  int64_t per_group_;
  int64_t type_count_;
  int64_t groups_;
};

int32_t bias_code(const Node& node, float bias, float scale) {
  const double code = std::nearbyint(static_cast<double>(bias) / static_cast<double>(scale));
  if (!(std::fabs(code) <= static_cast<double>(kLargest))) {
    fail(
        "node \"{}\" ({}): a bias of {} is {} steps of {}, the product of the scales of data_in_0 and "
        "weight: "
        "it does not fit into 32 bits",
        node.name, node.op, bias, code, scale);
  }
  return static_cast<int32_t>(code);
}

/// The sums of its positive and of its negative terms at their largest, in each channel.
int64_t sum_bound(const Node& node, const SumForm& form, const WeightLayout& layout) {
  std::vector<int64_t> most(form.bias.size());
  std::vector<int64_t> least(form.bias.size());
  for (size_t c = 0; c < form.bias.size(); ++c) {
    most[c] = std::max(form.bias[c], 0);
    least[c] = std::min(form.bias[c], 0);
  }
  const int64_t low = form.input.low - form.input.zero_point;
  const int64_t high = form.input.high - form.input.zero_point;
  const auto weights = form.weight.values<int32_t>();
  for (size_t i = 0; i < weights.size(); ++i) {
    const size_t c = layout.channel(static_cast<int64_t>(i));
    most[c] += std::max(weights[i] * low, weights[i] * high);
    least[c] += std::min(weights[i] * low, weights[i] * high);
  }
  int64_t bound = 0;
  for (size_t c = 0; c < most.size(); ++c) {
    bound = std::max({bound, most[c], -least[c]});
    if (bound <= kLargest) continue;
    fail(
        "node \"{}\" ({}): sums of output channel {} could reach {}, beyond the 32 bits of an accumulator: "
        "give its weights or its inputs fewer bits",
        node.name, node.op, c, bound);
  }
  return bound;
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
      fail("node \"{}\" ({}): {}", node.name, node.op, error.what());
    }
  }
}

std::optional<SumForm> sum_form(const Node& node, Requantization requantization) {
  const int64_t channel_dim = *find_operator(node.op).weight_channel_dim;
  const std::optional<CodeType> input = operand_type(node, "data_in_0");
  const std::optional<WeightTypes> types = weight_types(node, channel_dim);
  if (!input || !types) return std::nullopt;
  if (node.find_quantization("data_out_0") != nullptr && !operand_type(node, "data_out_0"))
    return std::nullopt;
  const WeightLayout layout(node, *types);
  const Tensor& weight = node.find_parameter("weight")->tensor;
  SumForm form{.input = *input,
               .weight = Tensor(DType::kInt32, weight.shape()),
               .bias = {},
               .scale = {},
               .output = operand_type(node, "data_out_0"),
               .multiplier = {},
               .fixed = {}};
  for (int64_t i = 0; i < weight.numel(); ++i) {
    const CodeType& type = types->types[layout.type(layout.channel(i))];
    const auto at = static_cast<size_t>(i);
    form.weight.values<int32_t>()[at] = type.code(weight.values<float>()[at]) - type.zero_point;
  }
  const Parameter* bias = node.find_parameter("bias");
  for (size_t c = 0; c < layout.channels(); ++c) {
    form.scale.push_back(input->scale * types->types[layout.type(c)].scale);
    form.bias.push_back(bias == nullptr ? 0
                                        : bias_code(node, bias->tensor.values<float>()[c], form.scale[c]));
  }
  form.bound = sum_bound(node, form, layout);
  if (form.output) set_multipliers(node, form, requantization);
  return form;
}

std::optional<TableForm> table_form(const Node& node, const std::function<double(double)>& function) {
  const std::optional<CodeType> input = operand_type(node, "data_in_0");
  const std::optional<CodeType> output = operand_type(node, "data_out_0");
  if (!input || !output) return std::nullopt;
  TableForm form{*input, *output, {}};
  for (int32_t code = input->low; code <= input->high; ++code) {
    const double exact = function(static_cast<double>(input->value(code)));
    form.codes.push_back(output->code(static_cast<float>(exact)));
  }
  return form;
}

int64_t largest_steps(const CodeType& type) {
  return std::max(int64_t{type.high} - type.zero_point, int64_t{type.zero_point} - type.low);
}

void set_fixed_sum(PairForm& form) {
  // The shifted codes stay below 2^30, and so do the sums: the scales are halved.
  constexpr int kShiftOfBytes = 20;  // TensorFlow Lite's
  constexpr int kShiftOfWords = 13;
  const bool bytes = std::max(largest_steps(form.a), largest_steps(form.b)) <= 255;
  form.left_shift = bytes ? kShiftOfBytes : kShiftOfWords;
  const double twice = 2 * static_cast<double>(std::max(form.a.scale, form.b.scale));
  form.fixed_a = FixedMultiplier::of(static_cast<double>(form.a.scale) / twice);
  form.fixed_b = FixedMultiplier::of(static_cast<double>(form.b.scale) / twice);
  form.fixed_output = FixedMultiplier::of(
      twice / (std::ldexp(1.0, form.left_shift) * static_cast<double>(form.output.scale)));
}

void set_fixed_product(PairForm& form) {
  const int64_t bound = largest_steps(form.a) * largest_steps(form.b);
  if (bound > kLargest) fail("products could reach {}, beyond 32 bits", bound);
  form.fixed_output =
      FixedMultiplier::of(static_cast<double>(form.a.scale) * static_cast<double>(form.b.scale) /
                          static_cast<double>(form.output.scale));
}

std::optional<PairForm> pair_form(const Node& node, PairOperation operation, Requantization requantization) {
  const std::optional<CodeType> a = operand_type(node, "data_in_0");
  const std::optional<CodeType> b = operand_type(node, "data_in_1");
  const std::optional<CodeType> output = operand_type(node, "data_out_0");
  if (!a || !b || !output) return std::nullopt;
  PairForm form{.operation = operation, .a = *a, .b = *b, .output = *output};
  form.fixed_point = requantization == Requantization::kFixedPoint;
  if (!form.fixed_point) return form;
  try {
    operation == PairOperation::kMul ? set_fixed_product(form) : set_fixed_sum(form);
  } catch (const Error& error) {
    fail("node \"{}\" ({}): {}", node.name, node.op, error.what());
  }
  return form;
}

std::optional<AverageForm> average_form(const Node& node, Requantization requantization) {
  const std::optional<CodeType> input = operand_type(node, "data_in_0");
  const std::optional<CodeType> output = operand_type(node, "data_out_0");
  if (!input || !output) return std::nullopt;
  return AverageForm{*input, *output, requantization == Requantization::kFixedPoint};
}

template <class Form>
std::optional<NodeForm> as_form(std::optional<Form> form) {
  return form ? std::optional<NodeForm>(std::move(*form)) : std::nullopt;
}

}  // namespace

int32_t PairForm::code(int32_t code_a, int32_t code_b) const {
  const int32_t steps_a = code_a - a.zero_point;
  const int32_t steps_b = code_b - b.zero_point;
  if (!fixed_point) {
    const float x = a.value(code_a);
    const float y = b.value(code_b);
    if (operation == PairOperation::kMul) return output.code(x * y);
    return output.code(operation == PairOperation::kAdd ? x + y : x - y);
  }
  if (operation == PairOperation::kMul) {
    return output.at(int64_t{fixed_product(steps_a * steps_b, fixed_output)});
  }
  const int32_t x = fixed_product(steps_a * (1 << left_shift), fixed_a);
  const int32_t y = fixed_product(steps_b * (1 << left_shift), fixed_b);
  const int32_t sum = operation == PairOperation::kAdd ? x + y : x - y;
  return output.at(int64_t{fixed_product(sum, fixed_output)});
}

int32_t AverageForm::code(int32_t sum, int64_t count) const {
  if (!fixed_point) {
    return output.at(static_cast<float>(sum) * (input.scale / (output.scale * static_cast<float>(count))));
  }
  const double ratio =
      static_cast<double>(input.scale) / (static_cast<double>(output.scale) * static_cast<double>(count));
  return output.at(int64_t{fixed_product(sum, FixedMultiplier::of(ratio))});
}

bool has_sum_form(std::string_view op) {
  return op == "linear" || op == "conv1d" || op == "conv2d" || op == "convtranspose2d";
}

bool has_pair_form(std::string_view op) { return op == "add" || op == "sub" || op == "mul"; }

bool has_average_form(std::string_view op) {
  return op == "avg_pool1d" || op == "avg_pool2d" || op == "adaptive_avg_pool1d" ||
         op == "adaptive_avg_pool2d";
}

std::optional<NodeForm> node_form(const Node& node, Requantization requantization) {
  if (has_sum_form(node.op)) return as_form(sum_form(node, requantization));
  if (has_average_form(node.op)) return as_form(average_form(node, requantization));
  if (has_pair_form(node.op)) {
    const PairOperation operation = node.op == "add"   ? PairOperation::kAdd
                                    : node.op == "sub" ? PairOperation::kSub
                                                       : PairOperation::kMul;
    return as_form(pair_form(node, operation, requantization));
  }
  if (const auto function = unary_function(node)) return as_form(table_form(node, function));
  return std::nullopt;
}

bool moves_codes(const Node& node) {
  constexpr std::array kMovers = {"identity",
                                  "dropout",
                                  "view",
                                  "reshape",
                                  "flatten",
                                  "transpose",
                                  "permute",
                                  "expand",
                                  "slice",
                                  "select",
                                  "pad",
                                  "cat",
                                  "relu",
                                  "max_pool1d",
                                  "max_pool2d",
                                  "adaptive_max_pool1d",
                                  "adaptive_max_pool2d"};
  return std::ranges::find(kMovers, node.op) != kMovers.end();
}

}  // namespace detent
