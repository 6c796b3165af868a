#include "detent/training/weight_average.h"

#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/where.h>

#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"

namespace detent {

WeightAverage::WeightAverage(std::vector<NamedParameter> parameters, double decay) : decay_(decay) {
  if (decay == 0) return;
  parameters_ = std::move(parameters);
  for (const auto& [name, parameter] : parameters_) averages_.push_back(parameter.detach().clone());
}

void WeightAverage::update(int64_t step) {
  const at::NoGradGuard no_gradients;
  const double decay = std::min(decay_, static_cast<double>(1 + step) / static_cast<double>(10 + step));
  for (size_t i = 0; i < averages_.size(); ++i) {
    const at::Tensor& now = parameters_[i].second;
    averages_[i].mul_(decay).add_(now, 1 - decay);
    // Scales that are still to be collected are NaN: their average begins with what is collected.
    averages_[i].copy_(at::where(averages_[i].isnan(), now, averages_[i]));
  }
}

void WeightAverage::exchange() {
  const at::NoGradGuard no_gradients;
  for (size_t i = 0; i < averages_.size(); ++i) {
    const at::Tensor now = parameters_[i].second.detach().clone();
    parameters_[i].second.detach().copy_(averages_[i]);
    averages_[i].copy_(now);
  }
}

StateDict WeightAverage::state() const {
  StateDict state;
  for (size_t i = 0; i < averages_.size(); ++i)
    state.emplace_back(parameters_[i].first, from_torch(averages_[i]));
  return state;
}

void WeightAverage::load_state(const StateDict& state, const std::string& source) {
  if (state.size() != averages_.size())
    fail("{}: got averages of {} parameters, expected {}", source, state.size(), averages_.size());
  for (size_t i = 0; i < averages_.size(); ++i) {
    const auto& [name, tensor] = state[i];
    if (name != parameters_[i].first || tensor.shape() != Shape(averages_[i].sizes().vec())) {
      fail("{}: got the average of \"{}\" {}, expected \"{}\" {}", source, name, shape_text(tensor.shape()),
           parameters_[i].first, shape_text(averages_[i].sizes().vec()));
    }
    averages_[i].copy_(to_torch(tensor.clone()));
  }
}

}  // namespace detent
