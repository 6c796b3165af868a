// Quantizes four numbers in several formats and prints what is left of them.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"

namespace {

void print_quantized(const std::string& text, const detent::Tensor& input) {
  const detent::Tensor output = detent::fake_quantize(detent::parse_quant_spec_text(text), input);
  std::printf("%-30s", text.c_str());
  for (const float value : output.values<float>()) std::printf(" %9g", static_cast<double>(value));
  std::printf("\n");
}

}  // namespace

int main() {
  try {
    const detent::Tensor input = detent::Tensor::from({4}, std::vector<float>{-1.7F, -0.02F, 0.3F, 2.4F});
    print_quantized("fixed:width=8,frac_width=4", input);
    print_quantized("fixed:width=4,frac_width=2", input);
    print_quantized("ternary:scaling_factor=true", input);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
