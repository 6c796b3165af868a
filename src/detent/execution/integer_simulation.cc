#include "detent/execution/integer_simulation.h"

#include <ATen/ops/broadcast_tensors.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <span>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/execution/reproducible.h"
#include "detent/execution/torch_tensor.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/integer/pooling.h"

namespace detent {
namespace {

constexpr int64_t kGrain = 4096;
constexpr int64_t kExactInFloat = int64_t{1} << 24;

/// Values that are multiples of the type's scale, counted in it.
at::Tensor steps_of(const at::Tensor& values, const CodeType& type) {
  return values.div(type.scale).round_();
}

Tensor codes_of(const at::Tensor& values, const CodeType& type) {
  const Tensor from = from_torch(values);
  Tensor codes(DType::kInt32, from.shape());
  parallel_for(from.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      codes.values<int32_t>()[i] = type.code(from.values<float>()[i]);
    }
  });
  return codes;
}

/// result[i] = value(i)
template <class Value>
at::Tensor mapped(const Shape& shape, Value value) {
  Tensor values(DType::kFloat32, shape);
  const auto to = values.values<float>();
  parallel_for(values.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) to[i] = value(i);
  });
  return to_torch(values);
}

/// value[i] = type.value(code(i)) in the shape of the result.
template <class Code>
at::Tensor values_of(const Shape& shape, const CodeType& type, Code code) {
  return mapped(shape, [&](size_t i) { return type.value(code(i)); });
}

template <class T>
at::Tensor per_channel(const Node& node, const at::Tensor& sums, const std::vector<T>& numbers) {
  std::vector<int64_t> shape(static_cast<size_t>(sums.dim()), 1);
  shape[channel_axis(node, shape.size())] = static_cast<int64_t>(numbers.size());
  return at::tensor(numbers).view(shape);
}

/// The largest magnitude that a sum of some of the products of one part can reach, where the input channels
/// fall into `parts` of about as many.
int64_t bound_of_parts(const SumForm& form, const Node& node, int64_t parts) {
  const WeightChannels channels(node);
  const int64_t inputs = form.weight.dim(trait<WeightedSum>(node)->reduction_axis());
  const int64_t taps = element_count({form.weight.shape().begin() + 2, form.weight.shape().end()});
  const int64_t low = form.input.low - form.input.zero_point;
  const int64_t high = form.input.high - form.input.zero_point;
  std::vector<int64_t> most(static_cast<size_t>(parts * channels.outputs()));
  std::vector<int64_t> least(most.size());
  const std::span<const int32_t> weights = form.weight.values<int32_t>();
  for (int64_t i = 0; i < form.weight.numel(); i += taps) {
    const int64_t part = channels.input(i) * parts / inputs;
    const auto sum = static_cast<size_t>(part * channels.outputs() + channels.output(i));
    const auto [above, below] =
        signed_sums(weights.subspan(static_cast<size_t>(i), static_cast<size_t>(taps)));
    most[sum] += above * high + below * low;
    least[sum] += above * low + below * high;
  }
  return std::max(std::ranges::max(most), -std::ranges::min(least));
}

/// Into how many parts the input channels have to fall for sums that float32 holds; 0: too many.
int64_t exact_parts(const SumForm& form, const Node& node) {
  constexpr int64_t kMost = 8;
  if (form.bound <= kExactInFloat) return 1;
  const int64_t inputs = form.weight.dim(trait<WeightedSum>(node)->reduction_axis());
  const bool grouped = node.attributes.contains("groups") && integer_attribute(node, "groups") != 1;
  for (int64_t parts = 2; !grouped && parts <= std::min(kMost, inputs); ++parts) {
    if (bound_of_parts(form, node, parts) <= kExactInFloat) return parts;
  }
  return 0;
}

/// The values of `code(sum, channel)` for sums of type `Sum`, in float32.
template <class Sum, class Code>
at::Tensor values_of_sums(const Node& node, const CodeType& type, const at::Tensor& sums, Code code) {
  const Tensor from = from_torch(sums);
  const size_t axis = channel_axis(node, from.shape().size());
  const int64_t inner =
      element_count({from.shape().begin() + static_cast<int64_t>(axis) + 1, from.shape().end()});
  const at::Tensor result = at::empty(sums.sizes(), at::kFloat);
  auto* const to = result.data_ptr<float>();
  const Sum* const x = from.values<Sum>().data();
  const int64_t runs = from.numel() / std::max<int64_t>(inner, 1);
  parallel_for(runs, std::max<int64_t>(1, kGrain / std::max<int64_t>(inner, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t run = begin; run < end; ++run) {
                   const auto channel = static_cast<size_t>(run % from.shape()[axis]);
                   for (int64_t i = run * inner; i < (run + 1) * inner; ++i)
                     to[i] = type.value(code(x[i], channel));
                 }
               });
  return result;
}

}  // namespace

bool IntegerSimulation::is_needed(const Node& node, const NodeForm& form) {
  if (const auto* pair = std::get_if<PairForm>(&form)) return pair->fixed_point;
  // Others round in float32 as the tables' double does not.
  if (std::holds_alternative<TableForm>(form)) return clamp_of(node) == nullptr;
  return true;
}

IntegerSimulation::IntegerSimulation(const Node& node, NodeForm form, Evaluator evaluate)
    : node_(&node), form_(std::move(form)), evaluate_(evaluate) {
  auto* sums = std::get_if<SumForm>(&form_);
  if (sums == nullptr) return;
  const int64_t parts = exact_parts(*sums, node);
  const at::Tensor weight = to_torch(sums->weight).to(parts == 0 ? at::kDouble : at::kFloat);
  sums->weight = Tensor();  // as large as what is kept of it
  set_parts(*sums, weight, std::max<int64_t>(parts, 1));
}

void IntegerSimulation::set_parts(const SumForm& form, const at::Tensor& weight, int64_t count) {
  const int64_t axis = trait<WeightedSum>(*node_)->reduction_axis();
  const int64_t inputs = weight.size(axis);
  for (int64_t part = 0; part < count; ++part) {
    // As bound_of_parts shares them out: channel c is of part c * count / inputs.
    const int64_t first = (part * inputs + count - 1) / count;
    const int64_t channels = ((part + 1) * inputs + count - 1) / count - first;
    parts_.push_back({first, channels, {{"weight", weight.narrow(axis, first, channels).contiguous()}}});
  }
  if (count > 1 || node_->find_parameter("bias") == nullptr) return;
  parts_[0].parameters.emplace_back("bias", at::tensor(form.bias).to(weight.scalar_type()));
}

at::Tensor IntegerSimulation::part_of_sums(const Part& part, const at::Tensor& steps) const {
  Evaluation evaluation{*node_, {}, part.parameters, false};
  evaluation.inputs.emplace_back(steps.to(part.parameters[0].second.scalar_type()));
  return std::get<at::Tensor>(evaluate_(evaluation).flows().front());
}

at::Tensor IntegerSimulation::sums_of(const SumForm& form, const at::Tensor& input) const {
  const at::Tensor steps = steps_of(input, form.input);
  if (parts_.size() == 1) return part_of_sums(parts_[0], steps);
  const auto axis = static_cast<int64_t>(channel_axis(*node_, static_cast<size_t>(steps.dim())));
  at::Tensor sums;
  for (const Part& part : parts_) {
    const at::Tensor channels = steps.narrow(axis, part.first, part.channels).contiguous();
    const at::Tensor some = part_of_sums(part, channels).to(at::kInt);
    sums = sums.defined() ? sums.add_(some) : some;
  }
  return sums.add_(per_channel(*node_, sums, form.bias));
}

/// int32
at::Tensor IntegerSimulation::product_sums(const ProductForm& form, const std::vector<Flow>& inputs) const {
  const at::Tensor a = steps_of(std::get<at::Tensor>(inputs[0]), form.a);
  const at::Tensor b = steps_of(std::get<at::Tensor>(inputs[1]), form.b);
  const int64_t depth = a.size(-1);
  form.check_depth(*node_, depth);
  const at::ScalarType exact = depth * form.largest_product <= kExactInFloat ? at::kFloat : at::kDouble;
  Results results = evaluate_({*node_, {a.to(exact), b.to(exact)}, {}, false});
  return std::get<at::Tensor>(results.flows().front()).to(at::kInt);
}

at::Tensor IntegerSimulation::unrounded(const std::vector<Flow>& inputs) const {
  if (const auto* product = std::get_if<ProductForm>(&form_))
    return product_sums(*product, inputs).to(at::kFloat).mul_(product->scale);
  if (const auto* blocks = std::get_if<BlockSumForm>(&form_)) {
    const Tensor steps =
        block_sum_steps(*blocks, *node_, codes_of(std::get<at::Tensor>(inputs[0]), blocks->input));
    return to_torch(steps).mul(blocks->output ? blocks->output->scale : 1.0F);
  }
  const auto* form = std::get_if<SumForm>(&form_);
  if (form == nullptr) {
    const Evaluation evaluation{.node = *node_, .inputs = inputs, .parameters = {}, .in_order = true};
    const FloatOperator* const by = reproducible_operator(node_->op);
    if (by != nullptr && takes_reproducible(evaluation))
      return std::get<at::Tensor>(reproducible_results(*by, evaluation).front());
    return std::get<at::Tensor>(evaluate_(evaluation).flows().front());
  }
  const at::Tensor sums = sums_of(*form, std::get<at::Tensor>(inputs[0]));
  return sums.to(at::kFloat).mul_(per_channel(*node_, sums, form->scale));
}

at::Tensor IntegerSimulation::run_sums(const SumForm& form, const at::Tensor& input) const {
  if (!form.output) return unrounded({input});
  const at::Tensor sums = sums_of(form, input);
  const CodeType type = *form.output;
  if (!form.fixed.empty()) {
    return values_of_sums<int32_t>(*node_, type, sums.to(at::kInt),
                                   [&](int32_t sum, size_t c) { return form.requantized(sum, c); });
  }
  const float* const multipliers = form.multiplier.data();
  return values_of_sums<float>(*node_, type, sums.to(at::kFloat),
                               [&](float sum, size_t c) { return type.at(sum * multipliers[c]); });
}

at::Tensor IntegerSimulation::run(const std::vector<Flow>& inputs) const {
  const auto tensor = [&](size_t i) { return std::get<at::Tensor>(inputs[i]); };
  if (const auto* sums = std::get_if<SumForm>(&form_)) return run_sums(*sums, tensor(0));
  if (const auto* product = std::get_if<ProductForm>(&form_)) {
    const Tensor sums = from_torch(product_sums(*product, inputs));
    return mapped(sums.shape(), [&](size_t i) { return product->result(sums.values<int32_t>()[i]); });
  }
  if (const auto* table = std::get_if<TableForm>(&form_)) {
    const bool is_second = !std::holds_alternative<at::Tensor>(inputs[0]);  // behind a number
    const Tensor codes = codes_of(tensor(is_second ? 1 : 0), table->input);
    return values_of(codes.shape(), table->output, [&](size_t i) {
      return table->codes[static_cast<size_t>(codes.values<int32_t>()[i] - table->input.low)];
    });
  }
  if (const auto* pair = std::get_if<PairForm>(&form_)) {
    const auto broadcast = at::broadcast_tensors({tensor(0), tensor(1)});
    const Tensor a = codes_of(broadcast[0].contiguous(), pair->a);
    const Tensor b = codes_of(broadcast[1].contiguous(), pair->b);
    return values_of(a.shape(), pair->output,
                     [&](size_t i) { return pair->code(a.values<int32_t>()[i], b.values<int32_t>()[i]); });
  }
  if (const auto* blocks = std::get_if<BlockSumForm>(&form_)) {
    const Tensor steps = block_sum_steps(*blocks, *node_, codes_of(tensor(0), blocks->input));
    if (!blocks->output) return to_torch(steps);
    const CodeType type = *blocks->output;
    return values_of(steps.shape(), type, [&](size_t i) { return type.at(steps.values<float>()[i]); });
  }
  const auto& average = std::get<AverageForm>(form_);
  const Tensor means = average_pool(average, *node_, codes_of(tensor(0), average.input));
  return values_of(means.shape(), average.output, [&](size_t i) { return means.values<int32_t>()[i]; });
}

}  // namespace detent
