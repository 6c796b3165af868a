#include "detent/formats/groups/value_grid.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/formats/groups/given_parameters.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/kernel_environment.h"

namespace detent {
namespace {

using ValueLists = std::vector<std::vector<float>>;  // one for all groups, or one a group

/// Formats whose values do not depend on data; the others follow. `given` has the parameters of the groups as
/// far as it has keys for them.
template <class F>
ValueLists value_lists(const F& given, const std::vector<typename F::Parameters>& /*groups*/,
                       const std::string& where) {
  return {given.values(where)};
}

ValueLists value_lists(const Affine& /*given*/, const std::vector<AffineParameters>& groups,
                       const std::string& /*where*/) {
  ValueLists lists;
  for (const AffineParameters& group : groups) {
    std::vector<float>& list = lists.emplace_back();
    const auto last = static_cast<int64_t>(group.high);
    for (auto code = static_cast<int64_t>(group.low); code <= last; ++code)
      list.push_back(static_cast<float>(code) * group.scale);
  }
  return lists;
}

ValueLists value_lists(const Scaled& given, const std::vector<ScaledParameters>& groups,
                       const std::string& where) {
  Scaled unscaled = given;
  unscaled.scale = {1};
  const std::vector<float> elements = unscaled.values(where);
  ValueLists lists;
  for (const ScaledParameters& group : groups) {
    std::vector<float>& list = lists.emplace_back();
    for (const float element : elements) list.push_back(element * group.scale);
  }
  return lists;
}

// alpha is the mean of |x| above the threshold, so it stays what it is while the elements are -alpha, 0 and
// alpha and the threshold is below it. The smallest threshold of all groups is, as each is below its own
// alpha; only without scaling may a threshold be given that is not.
ValueLists value_lists(const Ternary& given, const std::vector<TernaryParameters>& groups,
                       const std::string& where) {
  if (!given.scaling_factor && !(*given.threshold < 1)) {
    fail("{}: ternary: the threshold is {}, expected below 1: quantization would turn 1 into 0", where,
         *given.threshold);
  }
  ValueLists lists;
  for (const TernaryParameters& group : groups) {
    std::vector<float>& list = lists.emplace_back();
    if (group.alpha > 0) list = {-group.alpha, 0.0F, group.alpha};
    if (list.empty()) list = {0.0F};
  }
  return lists;
}

// The scale is the mean of |x|: it stays alpha while all elements are -alpha or alpha.
ValueLists value_lists(const Binary& given, const std::vector<BinaryParameters>& groups,
                       const std::string& where) {
  if (given.stochastic) fail("{}: binary: stochastic = true draws the values anew each time", where);
  if (!given.bipolar) fail("{}: binary: with bipolar = false quantization turns 0 into +1", where);
  ValueLists lists;
  for (const BinaryParameters& group : groups) {
    std::vector<float>& list = lists.emplace_back();
    if (group.low < group.high) list.push_back(group.low);
    list.push_back(group.high);
  }
  return lists;
}

ValueLists value_lists(const BinaryResidual& given, const std::vector<BinaryResidualParameters>& groups,
                       const std::string& where) {
  if (groups.size() > 1) {
    fail("{}: binary_residual: the scales of {} groups follow the elements, expected granularity \"tensor\"",
         where, groups.size());
  }
  // Signs are chosen one after another, which does not reach every sum.
  const std::vector<float> sums = given.values(where);
  const Tensor all = Tensor::from({static_cast<int64_t>(sums.size())}, sums);
  const Tensor reached = fake_quantize(QuantSpec{given}, all);
  std::vector<float> list;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (reached.values<float>()[i] == sums[i]) list.push_back(sums[i]);
  }
  return {std::move(list)};
}

}  // namespace

std::string ValueGrid::obstacle(const QuantSpec& spec) {
  constexpr double kMostBits = 16;
  const double bits = bits_per_value(spec.format);
  if (bits <= kMostBits) return "";
  return fmt::format("{} has {} bits, expected at most {}: so fine a grid leaves nothing to choose",
                     format_name(spec.format), bits, kMostBits);
}

ValueGrid::ValueGrid(const QuantSpec& spec, const Tensor& tensor, const std::string& where) : spec_(spec) {
  const DefaultFloatEnvironment environment;
  DETENT_CHECK(tensor.numel() > 0, "an empty tensor");
  validate(spec, where);
  if (spec.scale_rule == ScaleRule::kLearned) {
    fail("{}: got scale_rule = \"learned\", expected \"given\": training moves the values", where);
  }
  if (const std::string reason = obstacle(spec); !reason.empty()) fail("{}: {}", where, reason);
  grouping_ = make_grouping(spec, tensor.shape());
  parameters_ = derive_parameters(spec, tensor, grouping_, 0);
  spec_ = with_given_parameters(spec, grouping_, parameters_);
  lists_ = std::visit(
      [&]<class F>(const F& given) -> ValueLists {
        if constexpr (BlockFormat<F>) {
          fail(
              "{}: {}: the scale of a block follows its largest element, so its values are not known before "
              "they are chosen; expected a format with fixed parameters, such as affine or fixed",
              where, F::kName);
        } else {
          return value_lists(given, std::get<std::vector<typename F::Parameters>>(parameters_), where);
        }
      },
      spec_.format);
}

float ValueGrid::rounded(int64_t element, float x) const {
  const DefaultFloatEnvironment environment;
  float value = 0;
  std::visit(
      [&]<class P>(const std::vector<P>& groups) {
        if constexpr (!BlockScaleRule<P>)
          P::kernels().round(ElementGroups<P>{groups, grouping_}, &x, &value, element, element + 1, false);
      },
      parameters_);
  return value + 0.0F;
}

}  // namespace detent
