// Any text as JSON: refused, or read as values that are the same after writing and reading them again.
#include <cstdlib>
#include <string_view>

#include "detent/core/error.h"
#include "detent/io/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  detent::Value value;
  try {
    value = detent::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  } catch (const detent::Error&) {
    return 0;
  }
  for (const auto layout : {detent::JsonLayout::kIndented, detent::JsonLayout::kOneLine}) {
    if (detent::parse_json(detent::json_text(value, layout), "written.json") != value) std::abort();
  }
  return 0;
}
