#include "detent/tokenizers/pattern.h"

#include "detent/tokenizers/unicode.h"

namespace detent {

std::shared_ptr<const Pattern> pattern_field(const JsonObject& object) {
  const JsonObject pattern = object.object("pattern");
  try {
    if (pattern.find("String") != nullptr)
      return std::make_shared<const Pattern>(Pattern::literal(pattern.text("String")));
    if (pattern.find("Regex") != nullptr)
      return std::make_shared<const Pattern>(Pattern(pattern.text("Regex")));
  } catch (const Error& error) {
    fail("{}: {}", pattern.name(), error.what());
  }
  fail("{}: \"String\" or \"Regex\" expected", pattern.name());
}

char32_t character_field(const JsonObject& object, std::string_view key) {
  const std::string text = object.text(key);
  const std::u32string characters = to_characters(text);
  if (characters.size() != 1) fail("{}: one character expected, not \"{}\"", object.at(key), text);
  return characters[0];
}

}  // namespace detent
