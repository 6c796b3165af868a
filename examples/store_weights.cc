// Stores weights as ternary codes, five in a byte, reads them back and measures what was lost.
#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/measure/distortion.h"
#include "detent/formats/packing/encode.h"

int main() {
  try {
    std::vector<float> values;
    for (int i = 0; i < 8 * 120; ++i) values.push_back(std::sin(0.1F * static_cast<float>(i * i)));
    const detent::Tensor weights = detent::Tensor::from({8, 120}, values);
    const detent::QuantSpec spec =
        detent::parse_quant_spec_text("ternary:scaling_factor=true,granularity=channel");

    const detent::Encoded encoded = detent::encode(spec, weights, detent::Packing::kBase3);
    for (const detent::EncodedStream& stream : encoded.streams) {
      std::printf("%-8s %zu bytes\n", stream.name.c_str(), stream.data.byte_size());
    }
    const detent::Tensor stored = detent::decode(encoded);
    if (!stored.equals(detent::fake_quantize(spec, weights))) return 1;
    detent::Distortion distortion;
    distortion.update(weights, stored);
    std::printf("%zu bytes of float32, signal to noise %.2f dB\n", weights.byte_size(), distortion.sqnr_db());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
