#include "detent/cli/field_help.h"

#include <cmath>

#include <fmt/format.h>

namespace detent {

std::string bounds_text(const Between& allowed) {
  // Limits that only guard against overflow tell the reader nothing.
  constexpr double kTooLargeToMention = 1e9;
  if (std::isinf(allowed.low)) return "";
  if (allowed.high >= kTooLargeToMention) return fmt::format(", at least {}", allowed.low);
  return fmt::format(", {} to {}", allowed.low, allowed.high);
}

std::string field_meaning(const FieldDescription& field) {
  return fmt::format("{} ({}{}; default {})", field.help, field.type, bounds_text(field.allowed),
                     field.default_value);
}

std::string flag_meaning(FieldDescription field) {
  std::erase(field.default_value, '"');
  return field_meaning(field);
}

}  // namespace detent
