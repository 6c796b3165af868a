#include "detent/inference/node_form.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "detent/core/error.h"
#include "detent/graph/node_names.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

constexpr auto kLargestInt32 = int64_t{std::numeric_limits<int32_t>::max()};

std::optional<SumForm> form_of(const WeightedSum& sum, const Node& node, Requantization requantization) {
  return sum_form(sum, node, requantization);
}

int64_t largest_steps(const CodeType& type) {
  return std::max(int64_t{type.high} - type.zero_point, int64_t{type.zero_point} - type.low);
}

std::optional<ProductForm> form_of(const MatrixProduct&, const Node& node, Requantization requantization) {
  const std::optional<CodeType> a = executed_type(node, "data_in_0");
  const std::optional<CodeType> b = executed_type(node, "data_in_1");
  const std::optional<CodeType> output = executed_type(node, "data_out_0");
  if (!a || !b || (!output && node.find_quantization("data_out_0") != nullptr)) return std::nullopt;
  ProductForm form{.a = *a, .b = *b, .output = output, .scale = a->scale * b->scale, .fixed = {}};
  form.largest_product = largest_steps(*a) * largest_steps(*b);
  if (form.largest_product * ProductForm::kDepth > kLargestInt32) return std::nullopt;
  if (!output) return form;
  form.multiplier = form.scale / output->scale;
  if (requantization == Requantization::kFloat) return form;
  try {
    form.fixed = FixedMultiplier::of(static_cast<double>(form.scale) / static_cast<double>(output->scale));
  } catch (const Error& error) {
    throw node_error(node, error);
  }
  return form;
}

std::optional<TableForm> form_of(const Unary& unary, const Node& node, Requantization /*requantization*/) {
  const std::optional<CodeType> input = executed_type(node, "data_in_0");
  const std::optional<CodeType> output = executed_type(node, "data_out_0");
  if (!input || !output) return std::nullopt;
  TableForm form{*input, *output, {}};
  const Unary::Function function = unary.function(node);
  for (int32_t code = input->low; code <= input->high; ++code) {
    const double exact = function(static_cast<double>(input->value(code)));
    form.codes.push_back(output->code(static_cast<float>(exact)));
  }
  return form;
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
  if (bound > kLargestInt32) fail("products could reach {}, beyond 32 bits", bound);
  form.fixed_output =
      FixedMultiplier::of(static_cast<double>(form.a.scale) * static_cast<double>(form.b.scale) /
                          static_cast<double>(form.output.scale));
}

/// The table for a tensor and a number, in either order.
std::optional<TableForm> form_with_number(PairOperation operation, const Node& node) {
  const size_t number_at = node.inputs[0].is_constant() ? 0 : 1;
  double scratch = 0;
  const double* number = node.inputs[number_at].constant.number(scratch);
  const std::optional<CodeType> input = executed_type(node, number_at == 0 ? "data_in_1" : "data_in_0");
  const std::optional<CodeType> output = executed_type(node, "data_out_0");
  if (number == nullptr || !input || !output) return std::nullopt;
  TableForm form{*input, *output, {}};
  const auto constant = static_cast<float>(*number);
  for (int32_t code = input->low; code <= input->high; ++code) {
    const float x = input->value(code);
    form.codes.push_back(output->code(number_at == 0 ? pair_result(operation, constant, x)
                                                     : pair_result(operation, x, constant)));
  }
  return form;
}

std::optional<PairForm> form_of_tensors(PairOperation operation, const Node& node,
                                        Requantization requantization) {
  // A divisor whose codes include 0 would divide 0 by 0.
  if (operation == PairOperation::kDiv) return std::nullopt;
  const std::optional<CodeType> a = executed_type(node, "data_in_0");
  const std::optional<CodeType> b = executed_type(node, "data_in_1");
  const std::optional<CodeType> output = executed_type(node, "data_out_0");
  if (!a || !b || !output) return std::nullopt;
  PairForm form{.operation = operation, .a = *a, .b = *b, .output = *output};
  form.fixed_point = requantization == Requantization::kFixedPoint;
  if (!form.fixed_point) return form;
  try {
    const bool multiplies = operation == PairOperation::kMul || operation == PairOperation::kPrelu;
    multiplies ? set_fixed_product(form) : set_fixed_sum(form);
    if (operation == PairOperation::kPrelu) {
      form.fixed_a =
          FixedMultiplier::of(static_cast<double>(form.a.scale) / static_cast<double>(form.output.scale));
    }
  } catch (const Error& error) {
    throw node_error(node, error);
  }
  return form;
}

std::optional<NodeForm> form_of(PairOperation operation, const Node& node, Requantization requantization) {
  if (std::ranges::any_of(node.inputs, &NodeInput::is_constant)) return form_with_number(operation, node);
  return form_of_tensors(operation, node, requantization);
}

std::optional<AverageForm> form_of(const Pooling& pooling, const Node& node, Requantization requantization) {
  if (pooling.of != Pooling::Of::kMean) return std::nullopt;
  const std::optional<CodeType> input = executed_type(node, "data_in_0");
  const std::optional<CodeType> output = executed_type(node, "data_out_0");
  if (!input || !output) return std::nullopt;
  return AverageForm{*input, *output, requantization == Requantization::kFixedPoint};
}

template <class Other>
std::optional<NodeForm> form_of(const Other&, const Node&, Requantization) {
  return std::nullopt;
}

}  // namespace

float pair_result(PairOperation operation, float a, float b) { return combined(operation, a, b); }

bool ProductForm::fits_depth(int64_t depth) const {
  return depth <= kLargestInt32 / std::max<int64_t>(largest_product, 1);
}

void ProductForm::check_depth(const Node& node, int64_t depth) const {
  if (fits_depth(depth)) return;
  fail(
      "node \"{0}\" ({1}): sums of {2} products of up to {3} could exceed the 32 bits of an accumulator: "
      "keep "
      "it in float (`detent quantize --keep-float '{0}'`) or give its inputs fewer bits",
      node.name, node.op, depth, largest_product);
}

int32_t PairForm::code(int32_t code_a, int32_t code_b) const {
  const int32_t steps_a = code_a - a.zero_point;
  const int32_t steps_b = code_b - b.zero_point;
  if (!fixed_point) {
    return output.code(pair_result(operation, a.value(code_a), b.value(code_b)));
  }
  if (operation == PairOperation::kPrelu && steps_a >= 0) {
    return output.at(int64_t{fixed_product(steps_a, fixed_a)});
  }
  if (operation == PairOperation::kMul || operation == PairOperation::kPrelu) {
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
  return output.at(int64_t{fixed_product(sum, multiplier(count))});
}

FixedMultiplier AverageForm::multiplier(int64_t count) const {
  return FixedMultiplier::of(static_cast<double>(input.scale) /
                             (static_cast<double>(output.scale) * static_cast<double>(count)));
}

SignedSums signed_sums(std::span<const int32_t> weights) {
  constexpr size_t kChunk = size_t{1} << 14;  // whose sums of codes of 16 bits fit into 32
  int64_t sum = 0;
  int64_t magnitude = 0;
  for (size_t first = 0; first < weights.size(); first += kChunk) {
    int32_t chunk_sum = 0;
    int32_t chunk_magnitude = 0;  // signs change at random: no branches
    for (const int32_t weight : weights.subspan(first, std::min(kChunk, weights.size() - first))) {
      chunk_sum += weight;
      chunk_magnitude += std::abs(weight);
    }
    sum += chunk_sum;
    magnitude += chunk_magnitude;
  }
  return {(magnitude + sum) / 2, (sum - magnitude) / 2};
}

std::optional<NodeForm> node_form(const Node& node, Requantization requantization) {
  std::optional<NodeForm> form = std::visit(
      [&](const auto& kind) -> std::optional<NodeForm> {
        auto own = form_of(kind, node, requantization);
        return own ? std::optional<NodeForm>(std::move(*own)) : std::nullopt;
      },
      trait_of(node));
  if (form || requantization != Requantization::kFloat) return form;
  auto blocks = block_sum_form(node);
  return blocks ? std::optional<NodeForm>(std::move(*blocks)) : std::nullopt;
}

bool moves_codes(const Node& node) {
  return trait<Movement>(node) != nullptr || is_pooling(node, Pooling::Of::kLargest) || is_rectifier(node);
}

CodeType moved_type(const Node& node, const CodeType& type) {
  return is_view(node) || is_pooling(node, Pooling::Of::kLargest) ? type : type.with_zero();
}

}  // namespace detent
