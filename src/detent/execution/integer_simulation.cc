#include "detent/execution/integer_simulation.h"

#include <ATen/ops/broadcast_tensors.h>
#include <ATen/ops/tensor.h>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/execution/torch_tensor.h"
#include "detent/graph/traits.h"
#include "detent/integer/pooling.h"

namespace detent {
namespace {

constexpr int64_t kGrain = 4096;

/// Values that are multiples of the type's scale, counted in it.
at::Tensor steps_of(const at::Tensor& values, const CodeType& type) { return values.div(type.scale).round(); }

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

/// value[i] = type.value(code(i)) in the shape of the result.
template <class Code>
at::Tensor values_of(const Shape& shape, const CodeType& type, Code code) {
  Tensor values(DType::kFloat32, shape);
  const auto to = values.values<float>();
  parallel_for(values.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) to[i] = type.value(code(i));
  });
  return to_torch(values);
}

at::Tensor per_channel(const Node& node, const at::Tensor& sums, const std::vector<float>& factors) {
  const auto count = static_cast<int64_t>(factors.size());
  std::vector<int64_t> shape(static_cast<size_t>(sums.dim()), 1);
  shape[channel_axis(node, shape.size())] = count;
  return at::tensor(factors).view(shape);
}

at::Tensor run_fixed(const Node& node, const SumForm& form, const at::Tensor& sums) {
  const Tensor from = from_torch(sums.to(at::kInt));
  const auto axis = static_cast<int64_t>(channel_axis(node, from.shape().size()));
  const auto channels = static_cast<size_t>(form.bias.size());
  const auto inner =
      static_cast<size_t>(element_count({from.shape().begin() + axis + 1, from.shape().end()}));
  return values_of(from.shape(), *form.output, [&](size_t i) {
    return form.requantized(from.values<int32_t>()[i], i / inner % channels);
  });
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
  constexpr int64_t kExactInFloat = int64_t{1} << 24;
  const auto dtype = sums->bound <= kExactInFloat ? at::kFloat : at::kDouble;
  parameters_.emplace_back("weight", to_torch(sums->weight).to(dtype));
  sums->weight = Tensor();  // as large as what is kept of it
  if (node.find_parameter("bias") != nullptr) {
    parameters_.emplace_back("bias", at::tensor(sums->bias).to(dtype));
  }
}

at::Tensor IntegerSimulation::sums_of(const SumForm& form, const at::Tensor& input) const {
  Evaluation evaluation{*node_, {}, parameters_, false};
  evaluation.inputs.emplace_back(steps_of(input, form.input).to(parameters_[0].second.dtype()));
  return std::get<at::Tensor>(evaluate_(evaluation).flows().front());
}

at::Tensor IntegerSimulation::unrounded(const std::vector<Flow>& inputs) const {
  const auto* form = std::get_if<SumForm>(&form_);
  if (form == nullptr)
    return std::get<at::Tensor>(evaluate_({*node_, inputs, parameters_, false}).flows().front());
  const at::Tensor sums = sums_of(*form, std::get<at::Tensor>(inputs[0]));
  return sums.to(at::kFloat).mul(per_channel(*node_, sums, form->scale));
}

at::Tensor IntegerSimulation::run_sums(const SumForm& form, const at::Tensor& input) const {
  if (!form.output) return unrounded({input});
  const at::Tensor sums = sums_of(form, input);
  if (!form.fixed.empty()) return run_fixed(*node_, form, sums);
  const at::Tensor scaled = sums.to(at::kFloat).mul(per_channel(*node_, sums, form.multiplier));
  const auto low = static_cast<float>(form.output->low - form.output->zero_point);
  const auto high = static_cast<float>(form.output->high - form.output->zero_point);
  return scaled.round().clamp(low, high).mul(form.output->scale);
}

at::Tensor IntegerSimulation::run(const std::vector<Flow>& inputs) const {
  const auto tensor = [&](size_t i) { return std::get<at::Tensor>(inputs[i]); };
  if (const auto* sums = std::get_if<SumForm>(&form_)) return run_sums(*sums, tensor(0));
  if (const auto* table = std::get_if<TableForm>(&form_)) {
    const Tensor codes = codes_of(tensor(0), table->input);
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
  const auto& average = std::get<AverageForm>(form_);
  const Tensor means = average_pool(average, *node_, codes_of(tensor(0), average.input));
  return values_of(means.shape(), average.output, [&](size_t i) { return means.values<int32_t>()[i]; });
}

}  // namespace detent
