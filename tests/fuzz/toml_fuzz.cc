// Any text as TOML: refused, or read as values that are the same after writing and reading them again.
#include <cstdlib>
#include <string_view>

#include "detent/core/error.h"
#include "detent/files/toml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  detent::Table table;
  try {
    table = detent::parse_toml({reinterpret_cast<const char*>(data), size}, "fuzz.toml");
  } catch (const detent::Error&) {
    return 0;
  }
  const std::string text = detent::toml_text(table);
  if (detent::toml_text(detent::parse_toml(text, "written.toml")) != text) std::abort();
  detent::toml_text(table, detent::TomlLayout::kBreadthFirst);
  return 0;
}
