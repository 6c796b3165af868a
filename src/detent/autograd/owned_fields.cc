#include "detent/autograd/owned_fields.h"

#include <algorithm>
#include <cmath>

#include <ATen/ops/softmax.h>

#include "detent/autograd/affine_rounding.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/formats/verbs.h"
#include "detent/graph/owned_parameters.h"

namespace detent {

at::Tensor round_to_codebook(const at::Tensor& input, const at::Tensor& codebook) {
  const at::Tensor values = codebook.detach();
  const auto gaps = static_cast<double>(std::max<int64_t>(codebook.numel() - 1, 1));
  const double gap = values.max().sub(values.min()).item<double>() / gaps;
  const double temperature = std::max(kCodebookTemperature * gap * gap, 1e-30);
  const at::Tensor distances = input.detach().unsqueeze(-1).sub(codebook).square();
  const at::Tensor attention = at::softmax(distances.div(-temperature), -1);
  const at::Tensor rounded = attention.mul(codebook).sum(-1);
  return rounded.add(input.sub(input.detach()));
}

at::Tensor round_with_exponent_bias(const at::Tensor& input, const QuantSpec& spec, const at::Tensor& bias,
                                    int64_t samples) {
  QuantSpec rounding = spec;
  rounding.format = with_exponent_bias(spec.format, bias.item<float>());
  rounding.gradient = Gradient::kClipped;
  const Tensor values = from_torch(input.detach().contiguous());
  const at::Tensor rounded = to_torch(fake_quantize(rounding, values));
  const at::Tensor inside = to_torch(clipped_ste_mask(rounding, values));
  const at::Tensor slope = rounded.sub(input.detach().mul(inside)).mul(-std::log(2.0));
  const double elements = static_cast<double>(input.numel()) / static_cast<double>(samples);
  const at::Tensor learned = with_gradient_factor(bias, 1 / std::sqrt(elements));
  return rounded.add(input.sub(input.detach()).mul(inside)).add(slope.mul(learned.sub(learned.detach())));
}

}  // namespace detent
