#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detent/core/fields.h"
#include "detent/core/value.h"
#include "detent/formats/all.h"

namespace detent {

/// Name (as configuration files spell it) of the alternative that `format` holds.
std::string_view format_name(const Format& format);
/// Canonical names in the order of formats/all.h, aliases ("integer" for "fixed"), and the usual ones of
/// formats/named_formats.h ("int8").
std::vector<std::string> format_names();
std::vector<std::pair<std::string, std::string>> format_aliases();

/// "name" or "name:key=value,key=value". Throws Error on unknown names and keys, on values that are wrong,
/// and on names that say more than a format ("int4_g128": parse_quant_spec_text).
Format parse_format(std::string_view text);
/// The inverse: the name and the keys that differ from their defaults.
std::string format_text(const Format& format);

/// The default-constructed format of that name or alias, or what formats/named_formats.h says of it. Throws
/// Error with the nearest known name.
Format make_format(std::string_view name, const std::string& where);

/// Throws Error, beginning with `where`, on fields out of range and on fields that contradict each other.
void validate(const Format& format, const std::string& where);

/// Bits of one code, block and group scales not counted.
double bits_per_value(const Format& format);

/// How block formats cut tensors; nothing for other formats.
std::optional<BlockSize> block_size(const Format& format);

/// The format with parameters under which it holds `ranges` without saturating: one range for the tensor, or
/// one a channel; a format that has no parameters per channel holds them all. Throws Error, beginning with
/// `where`, on a format without such parameters.
Format covering(const Format& format, std::span<const Interval> ranges, ScaleForm form,
                const std::string& where);
bool has_range_per_channel(const Format& format);
/// Names of the formats that `covering` takes.
std::vector<std::string> ranged_format_names();

/// Every value the format can hold, ascending, without duplicates, for formats of at most 16 bits whose
/// values do not depend on data. Throws Error otherwise.
std::vector<float> representable_values(const Format& format);

}  // namespace detent
