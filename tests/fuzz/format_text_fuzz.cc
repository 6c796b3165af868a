#include <cstdlib>
#include <string_view>

#include "detent/core/error.h"
#include "detent/formats/quant_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const detent::QuantSpec spec = detent::parse_quant_spec_text(text);
    // What was accepted reads back as itself.
    if (!(detent::parse_quant_spec_text(detent::quant_spec_text(spec)) == spec)) std::abort();
  } catch (const detent::Error&) {
  }
  return 0;
}
