#include "detent/autograd/rounding_gradient.h"

#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>

#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"
#include "detent/formats/kernel_environment.h"

namespace detent {
namespace {

/// To the bit what is computed after training.
at::Tensor normalized(const at::Tensor& x) {
  const at::Tensor exact = to_torch(tanh_normalized(from_torch(x.detach().contiguous())));
  const at::Tensor bounded = at::tanh(x);
  const at::Tensor largest = bounded.abs().max();
  if (largest.item<float>() == 0) return exact.add(x);
  return straight_through(bounded.div(largest), exact);
}

at::Tensor whole_numbers(const at::Tensor& scaled, const TrainedRounding& rounding) {
  const DefaultFloatEnvironment environment;
  const Tensor values = from_torch(scaled.detach().contiguous());
  Tensor codes(DType::kFloat32, values.shape());
  round_to_whole(rounding.kind, values.values<float>(), codes.values<float>(), rounding.seed);
  const at::Tensor whole = straight_through(scaled, to_torch(codes));
  if (rounding.kind != Rounding::kLearned) return whole;
  if (rounding.up.sizes() != scaled.sizes()) {
    fail("its learned rounding has shape {}, expected {}", shape_text(rounding.up.sizes().vec()),
         shape_text(scaled.sizes().vec()));
  }
  return whole.add(round_up_share(rounding.up));
}

}  // namespace

at::Tensor round_up_share(const at::Tensor& up) {
  return at::sigmoid(up).mul(kStretch).add(kStretchFrom).clamp(0, 1);
}

at::Tensor round_affine(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& low,
                        const at::Tensor& high, const TrainedRounding& rounding, AffineGradient gradient) {
  // PACT: where x does not saturate, nothing of the scale.
  const at::Tensor inner_scale = gradient == AffineGradient::kClipping ? scale.detach() : scale;
  const at::Tensor input = rounding.kind == Rounding::kDorefa ? normalized(x) : x;
  const at::Tensor codes = whole_numbers(input.div(inner_scale), rounding);
  const at::Tensor is_below = codes.detach().lt(low.detach());
  const at::Tensor is_above = codes.detach().gt(high.detach());
  return at::where(is_below, low.mul(scale), at::where(is_above, high.mul(scale), codes.mul(inner_scale)));
}

}  // namespace detent
