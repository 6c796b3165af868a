#include "detent/formats/value_grid.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/formats/float_environment.h"
#include "detent/formats/group_parameters.h"
#include "detent/formats/kernels.h"

namespace detent {
namespace {

/// A format whose parameters stand in its fields, and its values: one list, or one a group.
struct Frozen {
  Format format;
  std::vector<std::vector<float>> lists;
};

/// Formats whose values do not depend on data; the others follow.
template <class F>
Frozen freeze(const F& format, const std::vector<typename F::Parameters>& /*groups*/,
              const std::string& where) {
  return {format, {format.values(where)}};
}

Frozen freeze(const Affine& format, const std::vector<AffineParameters>& groups,
              const std::string& /*where*/) {
  Affine fixed = format;
  fixed.scale.clear();
  fixed.zero_point.clear();
  const bool has_zero_points = !format.zero_points_are_zero();
  Frozen result;
  for (const AffineParameters& group : groups) {
    fixed.scale.push_back(group.scale);
    if (has_zero_points) fixed.zero_point.push_back(group.zero_point);
    std::vector<float>& list = result.lists.emplace_back();
    for (float code = group.low; code <= group.high; code += 1) list.push_back(code * group.scale);
  }
  result.format = std::move(fixed);
  return result;
}

// alpha is the mean of |x| above the threshold, so it stays what it is while the elements are -alpha, 0 and
// alpha and the threshold is below it. The smallest threshold of all groups is, as each is below its own
// alpha; only without scaling may a threshold be given that is not.
Frozen freeze(const Ternary& format, const std::vector<TernaryParameters>& groups, const std::string& where) {
  Ternary fixed = format;
  fixed.mean = fixed.median = fixed.max = std::nullopt;
  fixed.threshold = std::ranges::min_element(groups, {}, &TernaryParameters::delta)->delta;
  if (!format.scaling_factor && !(*fixed.threshold < 1)) {
    fail("{}: ternary: the threshold is {}, expected below 1: quantization would turn 1 into 0", where,
         *fixed.threshold);
  }
  Frozen result{fixed, {}};
  for (const TernaryParameters& group : groups) {
    std::vector<float>& list = result.lists.emplace_back();
    if (group.alpha > 0) list = {-group.alpha, 0.0F, group.alpha};
    if (list.empty()) list = {0.0F};
  }
  return result;
}

// The scale is the mean of |x|: it stays alpha while all elements are -alpha or alpha.
Frozen freeze(const Binary& format, const std::vector<BinaryParameters>& groups, const std::string& where) {
  if (format.stochastic) fail("{}: binary: stochastic = true draws the values anew each time", where);
  if (!format.bipolar) fail("{}: binary: with bipolar = false quantization turns 0 into +1", where);
  Frozen result{format, {}};
  for (const BinaryParameters& group : groups) {
    std::vector<float>& list = result.lists.emplace_back();
    if (group.low < group.high) list.push_back(group.low);
    list.push_back(group.high);
  }
  return result;
}

Frozen freeze(const BinaryResidual& format, const std::vector<BinaryResidualParameters>& groups,
              const std::string& where) {
  if (groups.size() > 1) {
    fail("{}: binary_residual: the scales of {} groups follow the elements, expected granularity \"tensor\"",
         where, groups.size());
  }
  BinaryResidual fixed = format;
  fixed.gamma = groups.front().gammas;
  // Signs are chosen one after another, which does not reach every sum.
  const std::vector<float> sums = fixed.values(where);
  const Tensor all = Tensor::from({static_cast<int64_t>(sums.size())}, sums);
  const Tensor reached = simulate(QuantSpec{fixed}, all);
  std::vector<float> list;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (reached.values<float>()[i] == sums[i]) list.push_back(sums[i]);
  }
  return {fixed, {std::move(list)}};
}

}  // namespace

ValueGrid::ValueGrid(const QuantSpec& spec, const Tensor& tensor, const std::string& where) : spec_(spec) {
  constexpr double kMostBits = 16;
  const DefaultFloatEnvironment environment;
  DETENT_CHECK(tensor.numel() > 0, "an empty tensor");
  validate(spec, where);
  if (spec.scale_rule == ScaleRule::kLearned) {
    fail("{}: got scale_rule = \"learned\", expected \"given\": training moves the values", where);
  }
  if (bits_per_value(spec.format) > kMostBits) {
    fail("{}: {} has {} bits, expected at most {}: so fine a grid leaves nothing to choose", where,
         format_name(spec.format), bits_per_value(spec.format), kMostBits);
  }
  grouping_ = make_grouping(spec, tensor.shape());
  parameters_ = derive_parameters(spec, tensor, grouping_, 0);
  Frozen frozen = std::visit(
      [&]<class F>(const F& format) -> Frozen {
        if constexpr (BlockFormat<F>) {
          fail(
              "{}: {}: the scale of a block follows its largest element, so its values are not known before "
              "they are chosen; expected a format with fixed parameters, such as affine or fixed",
              where, F::kName);
        } else {
          return freeze(format, std::get<std::vector<typename F::Parameters>>(parameters_), where);
        }
      },
      spec.format);
  spec_.format = std::move(frozen.format);
  if (grouping_.groups() == 1) {  // one scale, for which there is no granularity but the tensor
    spec_.granularity = Granularity::kTensor;
    spec_.axis = 0;
    spec_.group_size.reset();
  }
  lists_ = std::move(frozen.lists);
}

float ValueGrid::rounded(int64_t element, float x) const {
  const DefaultFloatEnvironment environment;
  float value = 0;
  simulate_range(parameters_, grouping_, &x, &value, element, element + 1, false);
  return value + 0.0F;
}

}  // namespace detent
