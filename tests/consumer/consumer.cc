#include <cstdio>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#ifdef CONSUMER_HAS_FORMATS
#include "detent/formats/quant_spec.h"
#endif

int main() {
  detent::Tensor tensor = detent::Tensor::from({1}, std::vector<float>{0.3F});
#ifdef CONSUMER_HAS_FORMATS
  tensor = detent::fake_quantize(detent::parse_quant_spec_text("fixed:width=8,frac_width=4"), tensor);
  const float expected = 0.3125F;  // 5 / 16
#else
  const float expected = 0.3F;
#endif
  const float value = tensor.values<float>()[0];
  std::printf("%s tensor of shape %s holds %g\n", std::string(detent::dtype_name(tensor.dtype())).c_str(),
              detent::shape_text(tensor.shape()).c_str(), static_cast<double>(value));
  return value == expected ? 0 : 1;
}
