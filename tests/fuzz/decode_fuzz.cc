// Any bytes as the streams of any format, which a file with random bytes seldom reaches.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "detent/core/error.h"
#include "detent/formats/packing/encode.h"

namespace {

const char* const kSpecs[] = {
    "fixed:width=5",
    "ternary:scaling_factor=true,granularity=channel",
    "binary:scaling=per_tensor",
    "affine:width=7,granularity=channel",
    "minifloat_ieee:width=11,exponent_width=5",
    "minifloat_denorm",
    "log:width=9,exponent_bias=149",
    "binary_residual:levels=3",
    "codebook:values=-1x0.5x3",
    "fp8_e4m3fn",
    "bf16",
    "block_fp:width=5,exponent_width=6,block_size=3",
    "block_fp:exponent_bias=255,block_size=2x-1",
    "block_minifloat:width=31,exponent_width=8,block_axis=0",
    "block_minifloat:width=6,exponent_width=2,exponent_bias_width=3,block_size=-1x-1",
    "block_log:width=9,block_size=4,block_axis=1",
    "mx:element=e4m3",
    "mx:element=e5m2,block_size=5",
    "mx:element=e2m1,block_axis=0",
    "mx:element=int8",
    "nvfp4",
};

/// Takes bytes from the front; zeros when they are used up.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), left_(size) {}

  void fill(void* to, size_t size) {
    const size_t taken = std::min(size, left_);
    std::memcpy(to, data_, taken);
    std::memset(static_cast<uint8_t*>(to) + taken, 0, size - taken);
    data_ += taken;
    left_ -= taken;
  }
  uint8_t next() {
    uint8_t byte = 0;
    fill(&byte, 1);
    return byte;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

bool same(const detent::Tensor& a, const detent::Tensor& b) {
  for (size_t i = 0; i < static_cast<size_t>(a.numel()); ++i) {
    const float x = a.values<float>()[i];
    const float y = b.values<float>()[i];
    if (x != y && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  try {
    detent::Encoded encoded{.spec = detent::parse_quant_spec_text(kSpecs[bytes.next() % std::size(kSpecs)])};
    for (int rank = bytes.next() % 4; rank > 0; --rank) encoded.shape.push_back(bytes.next() % 40);
    for (const auto& [name, dtype, shape] :
         detent::encoded_layout(encoded.spec, encoded.shape, encoded.packing)) {
      detent::Tensor stream(dtype, shape);
      bytes.fill(stream.bytes().data(), stream.byte_size());
      encoded.streams.push_back({name, stream});
    }
    const detent::Tensor values = detent::decode(encoded);
    const detent::Tensor again = detent::decode(detent::encode(encoded.spec, values));
    if (!same(again, detent::fake_quantize(encoded.spec, values))) std::abort();
  } catch (const detent::Error&) {
  }
  return 0;
}
