#include "detent/cli/format_display.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "detent/core/fields.h"
#include "detent/formats/named_formats.h"

namespace detent {
namespace {

std::string allowed_text(const Between& allowed) {
  if (std::isinf(allowed.low) && std::isinf(allowed.high)) return "";
  if (std::isinf(allowed.high)) return fmt::format("at least {}", allowed.low);
  if (allowed.low == allowed.high) return fmt::format("{}", allowed.low);
  return fmt::format("{} to {}", allowed.low, allowed.high);
}

}  // namespace

std::vector<FormatDescription> describe_formats() {
  const auto aliases = format_aliases();
  std::vector<FormatDescription> result;
  for (const std::string& name : format_names()) {
    if (std::ranges::any_of(aliases, [&](const auto& alias) { return alias.first == name; })) continue;
    const Format format = make_format(name, "formats");
    FormatDescription& description = result.emplace_back();
    description.name = name;
    description.bits = bits_per_value(format);
    for (const auto& [alias, target] : aliases) {
      if (target == name) description.aliases.push_back(alias);
    }
    std::tie(description.keys, description.help) = std::visit(
        []<class F>(const F&) { return std::pair(field_names<F>(), std::string(F::kHelp)); }, format);
    const std::optional<NamedFormat> named = find_named_format(name, "formats");
    if (!named) continue;
    std::erase_if(description.keys, [&](const std::string& key) { return named->keys.contains(key); });
    description.help = std::ranges::find(usual_named_formats(), name, &NamedFormatHelp::name)->help;
  }
  return result;
}

TextTable formats_table() {
  TextTable table({"format", "aliases", "bits", "keys", "what it is"});
  for (const FormatDescription& format : describe_formats()) {
    table.add_row({format.name, fmt::format("{}", fmt::join(format.aliases, ", ")),
                   fmt::format("{}", format.bits), fmt::format("{}", fmt::join(format.keys, ", ")),
                   format.help});
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
