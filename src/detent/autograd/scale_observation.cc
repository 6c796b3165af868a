#include "detent/autograd/scale_observation.h"

#include <algorithm>
#include <cmath>

#include <ATen/core/grad_mode.h>

#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/groups/learned_scale.h"
#include "detent/formats/verbs.h"
#include "detent/graph/owned_parameters.h"
#include "detent/statistics/range_search.h"

namespace detent {
namespace {

/// No scale is smaller.
constexpr double kLeastThreshold = 1e-10;

/// The largest finite |x| of each place along dimension 1, averaged.
double mean_of_channel_maxima(const at::Tensor& values) {
  const at::Tensor magnitudes = values.abs().nan_to_num(0, 0, 0);
  if (values.dim() < 2) return magnitudes.max().item<double>();
  return magnitudes.transpose(0, 1).flatten(1).amax(1).to(at::kDouble).mean().item<double>();
}

double finite_low(std::span<const float> values) {
  double low = 0;
  for (const float value : values) {
    if (std::isfinite(value)) low = std::min(low, static_cast<double>(value));
  }
  return low;
}

float zero_point_of(const std::vector<float>& values, const ScaleObserver& observer, double scale) {
  const bool of_percentiles = observer.statistic == Threshold::kPercentileRange;
  const double low =
      of_percentiles ? low_percentile(static_cast<double>(observer.argument), values) : finite_low(values);
  return static_cast<float>(std::nearbyint(-low / scale));
}

/// The average of the steps so far and `step`.
float averaged(float average, float step, const ScaleObserver& observer) {
  const auto done = static_cast<float>(observer.done);
  const float momentum = observer.momentum;
  if (done == 0) return step;
  if (momentum > 0) return (1 - momentum) * average + momentum * step;
  return average * (done / (done + 1)) + step / (done + 1);
}

/// The average of powers of two is none.
float unrounded_scale(ScaleParameter kind, float parameter, double largest_code) {
  return kind == ScaleParameter::kExponent ? std::exp2(parameter)
                                           : scale_of_parameter(kind, parameter, largest_code);
}

}  // namespace

ScaleParameter scale_kind(const OwnedTensors& owned) {
  for (const ScaleParameter kind : {ScaleParameter::kScale, ScaleParameter::kLog2, ScaleParameter::kExponent,
                                    ScaleParameter::kRange, ScaleParameter::kClip, ScaleParameter::kGamma}) {
    if (find_owned(owned, scale_parameter_name(kind)).defined()) return kind;
  }
  DETENT_CHECK(false, "nothing stands for the scale");
  return ScaleParameter::kScale;
}

at::Tensor find_owned(const OwnedTensors& owned, std::string_view name) {
  const auto found = std::ranges::find(owned, name, &OwnedTensors::value_type::first);
  return found == owned.end() ? at::Tensor() : found->second;
}

std::optional<ObservedStep> observe_step(const at::Tensor& input, const QuantSpec& spec,
                                         const TrainedQuantizer& quantizer, const GatherSamples& gather) {
  if (!quantizer.is_observing()) return std::nullopt;
  ScaleObserver& observer = *quantizer.observer;
  const OwnedTensors& owned = quantizer.owned;
  const at::NoGradGuard no_gradients;
  const std::optional<IntegerCodes> integers = integer_codes(spec.format);
  const double largest = largest_code_of(spec);
  const CodeRange codes{.low = integers ? integers->low() : -largest, .high = largest};
  const at::Tensor own = input.detach().contiguous();
  const at::Tensor values = gather ? gather(own) : own;
  const Tensor observed = from_torch(values);
  const auto groups = values_by_group(observed.values<float>(), make_grouping(spec, observed.shape()));
  const ScaleParameter kind = scale_kind(owned);
  const at::Tensor parameter = find_owned(owned, scale_parameter_name(kind));
  const at::Tensor zero_point = find_owned(owned, "zero_point");
  ObservedStep step{parameter.detach().clone(),
                    zero_point.defined() ? zero_point.detach().clone() : at::Tensor()};
  for (size_t g = 0; g < groups.size(); ++g) {
    const bool averages_channels = observer.statistic == Threshold::kMeanOfMaxima && groups.size() == 1;
    const double threshold =
        averages_channels
            ? mean_of_channel_maxima(values)
            : find_threshold(observer.statistic, static_cast<double>(observer.argument), groups[g], codes);
    const auto scale = static_cast<float>(std::max(threshold, kLeastThreshold) / codes.high);
    step.scale.data_ptr<float>()[g] =
        scale_of_parameter(kind, parameter_of_scale(kind, scale, codes.high), codes.high);
    float& kept = parameter.data_ptr<float>()[g];
    kept = parameter_of_scale(kind, averaged(unrounded_scale(kind, kept, codes.high), scale, observer),
                              codes.high);
    if (!zero_point.defined()) continue;
    const float zero = zero_point_of(groups[g], observer, static_cast<double>(scale));
    step.zero_point.data_ptr<float>()[g] = zero;
    float& kept_zero = zero_point.data_ptr<float>()[g];
    kept_zero = averaged(kept_zero, zero, observer);
  }
  ++observer.done;
  return step;
}

}  // namespace detent
