// Parsers of text: refused, or read; nothing else may happen.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

#include "detent/core/error.h"
#include "detent/files/array_files.h"
#include "detent/files/json.h"
#include "detent/files/toml.h"
#include "detent/formats/quant_spec.h"
#include "detent/language/language_config.h"
#include "detent/language/language_weights.h"
#include "detent/passes/stat_to_conf.h"
#include "detent/tokenizers/chat/chat_template.h"
#include "detent/tokenizers/tokenizer.h"
#include "detent/tokenizers/unicode.h"

#include "memory_file.h"

namespace detent::fuzz {

/// Any text as a table of numbers.
int fuzz_csv(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  try {
    const Tensor table = read_csv(file.path());
    for (const float value : table.values<float>()) DETENT_CHECK(std::isfinite(value), "{}", value);
  } catch (const Error&) {
  }
  return 0;
}

/// Any text as JSON: refused, or read as values that are the same after writing and reading them again. Texts
/// are compared, since NaN is not equal to itself.
int fuzz_json(const uint8_t* data, size_t size) {
  Value value;
  try {
    value = parse_json({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  } catch (const Error&) {
    return 0;
  }
  for (const auto layout : {JsonLayout::kIndented, JsonLayout::kOneLine}) {
    const std::string text = json_text(value, layout);
    if (json_text(parse_json(text, "written.json"), layout) != text) std::abort();
  }
  return 0;
}

/// Any text as TOML: refused, or read as values that are the same after writing and reading them again.
int fuzz_toml(const uint8_t* data, size_t size) {
  Table table;
  try {
    table = parse_toml({reinterpret_cast<const char*>(data), size}, "fuzz.toml");
  } catch (const Error&) {
    return 0;
  }
  const std::string text = toml_text(table);
  if (toml_text(parse_toml(text, "written.toml")) != text) std::abort();
  toml_text(table, TomlLayout::kBreadthFirst);
  return 0;
}

int fuzz_format_text(const uint8_t* data, size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const QuantSpec spec = parse_quant_spec_text(text);
    // Accepted text reads back as itself.
    if (!(parse_quant_spec_text(quant_spec_text(spec)) == spec)) std::abort();
  } catch (const Error&) {
  }
  return 0;
}

/// Any text as the config.json of a language model: refused, or one whose network can be described. Networks
/// of many layers take a while, so those are described as if they had two.
int fuzz_language_config(const uint8_t* data, size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    LanguageConfig config = read_language_config(parse_json(text, "config.json"), "config.json");
    config.layers = std::min<int64_t>(config.layers, 2);
    if (!config.has_window.empty()) config.has_window.resize(static_cast<size_t>(config.layers));
    expected_weights(config);
  } catch (const Error&) {
  }
  return 0;
}

/// Any text as a tokenizer.json: refused, or a tokenizer that decodes what it has encoded to valid UTF-8, at
/// once and token by token.
int fuzz_tokenizer(const uint8_t* data, size_t size) {
  try {
    const Tokenizer tokenizer =
        parse_tokenizer_json({reinterpret_cast<const char*>(data), size}, "tokenizer.json");
    for (const std::string_view text :
         {"The catch's  stops\n12 <s>", "\xC3\xA9\xF0\x9F\x98\x80\xFF \xE2\x96\x81", ""}) {
      const std::vector<int64_t> ids = tokenizer.encode(text);
      if (!is_valid_utf8(tokenizer.decode(ids))) std::abort();
      StreamingDecoder decoder(tokenizer);
      for (const int64_t id : ids)
        if (!is_valid_utf8(decoder.add(id))) std::abort();
      if (!is_valid_utf8(decoder.finish())) std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}

/// Any text as a template of chats: refused, or one that gives a text or an error in a bounded time.
int fuzz_chat_template(const uint8_t* data, size_t size) {
  try {
    const ChatTemplate chat({reinterpret_cast<const char*>(data), size}, "template");
    chat.render({{"system", "Be brief."}, {"user", "Hello \xC3\xA9"}, {"assistant", "x"}}, true,
                {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  } catch (const Error&) {
  }
  return 0;
}

/// Any text as a file of saved statistics, which becomes a configuration with each calibrator.
int fuzz_statistics(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  StatToConfInput input;
  input.statistics_file = "fuzz.toml";
  const auto choice = static_cast<size_t>(data[0]);
  const auto calibrators = enum_names(Calibrator());
  try {
    input.statistics = parse_toml({reinterpret_cast<const char*>(data) + 1, size - 1}, "fuzz.toml");
    if (choice % 2 == 1) {
      input.calibration.emplace().calibrator = static_cast<Calibrator>(choice / 2 % calibrators.size());
      input.formats = {{"data_in", parse_quant_spec_text("affine")},
                       {"weight", parse_quant_spec_text("affine:granularity=channel")}};
    }
    stat_to_conf(input, [](const std::string&) {});
  } catch (const Error&) {
  }
  return 0;
}

}  // namespace detent::fuzz
