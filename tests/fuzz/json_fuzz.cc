// Any text as JSON: refused, or read as values that are the same after writing and reading them again. Texts
// are compared, since NaN is not equal to itself.
#include <cstdlib>
#include <string>
#include <string_view>

#include "detent/core/error.h"
#include "detent/files/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  detent::Value value;
  try {
    value = detent::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  } catch (const detent::Error&) {
    return 0;
  }
  for (const auto layout : {detent::JsonLayout::kIndented, detent::JsonLayout::kOneLine}) {
    const std::string text = detent::json_text(value, layout);
    if (detent::json_text(detent::parse_json(text, "written.json"), layout) != text) std::abort();
  }
  return 0;
}
