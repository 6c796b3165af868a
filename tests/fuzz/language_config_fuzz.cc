// Any text as the config.json of a language model: refused, or one whose network can be described. Networks
// of many layers take a while, so those are described as if they had two.
#include <algorithm>
#include <string_view>

#include "detent/core/error.h"
#include "detent/files/json.h"
#include "detent/language/language_config.h"
#include "detent/language/language_weights.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    detent::LanguageConfig config =
        detent::read_language_config(detent::parse_json(text, "config.json"), "config.json");
    config.layers = std::min<int64_t>(config.layers, 2);
    if (!config.has_window.empty()) config.has_window.resize(static_cast<size_t>(config.layers));
    detent::expected_weights(config);
  } catch (const detent::Error&) {
  }
  return 0;
}
