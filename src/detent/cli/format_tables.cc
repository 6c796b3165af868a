#include "detent/cli/format_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "detent/core/fields.h"

namespace detent {
namespace {

std::string allowed_text(const Between& allowed) {
  if (std::isinf(allowed.low) && std::isinf(allowed.high)) return "";
  if (std::isinf(allowed.high)) return fmt::format("at least {}", allowed.low);
  if (allowed.low == allowed.high) return fmt::format("{}", allowed.low);
  return fmt::format("{} to {}", allowed.low, allowed.high);
}

}  // namespace

TextTable formats_table() {
  TextTable table({"format", "aliases", "bits", "keys", "what it is"});
  const auto aliases = format_aliases();
  for (const std::string& name : format_names()) {
    std::vector<std::string> own;
    for (const auto& [alias, target] : aliases) {
      if (target == name) own.push_back(alias);
    }
    if (std::ranges::any_of(aliases, [&](const auto& alias) { return alias.first == name; })) continue;
    const Format format = make_format(name, "formats");
    const auto [keys, help] = std::visit(
        []<class F>(const F&) { return std::pair(field_names<F>(), std::string(F::kHelp)); }, format);
    table.add_row({name, fmt::format("{}", fmt::join(own, ", ")), fmt::format("{}", bits_per_value(format)),
                   fmt::format("{}", fmt::join(keys, ", ")), help});
  }
  return table;
}

TextTable format_fields_table(const Format& format) {
  TextTable table({"key", "type", "default", "value", "allowed", "meaning"});
  std::visit(
      [&]<class F>(const F& alternative) {
        const Table values = write_fields(alternative);
        for (const FieldDescription& field : describe_fields<F>()) {
          table.add_row({field.name, field.type, field.default_value, value_text(*values.find(field.name)),
                         allowed_text(field.allowed), field.help});
        }
      },
      format);
  return table;
}

}  // namespace detent
