#include "detent/formats/quant_spec.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error_fields.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/kernel_environment.h"
#include "detent/formats/named_formats.h"

namespace detent {
namespace {

bool is_known(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

void append(Table& table, const Table& more) {
  for (const auto& [key, value] : more) table[key] = value;
}

}  // namespace

QuantSpec parse_quant_spec(std::string_view format_name, const Table& keys, const std::string& where) {
  if (const auto named = find_named_format(format_name, where))
    return parse_quant_spec(named->format, named->with(keys, where), where);
  const DefaultFloatEnvironment environment;
  QuantSpec spec;
  spec.format = make_format(format_name, where);
  std::visit(
      [&]<class F>(F& format) {
        const std::vector<std::string> format_keys = field_names<F>();
        const std::vector<std::string> spec_keys = field_names<QuantSpec>();
        std::vector<std::string> known = format_keys;
        known.insert(known.end(), spec_keys.begin(), spec_keys.end());
        Table of_format;
        Table of_spec;
        for (const auto& [key, value] : keys) {
          if (!is_known(known, key)) fail_unknown(where, "key", key, known);
          (is_known(format_keys, key) ? of_format : of_spec)[key] = value;
        }
        read_fields(format, of_format, where);
        read_fields(spec, of_spec, where);
      },
      spec.format);
  validate(spec, where);
  return spec;
}

Table quant_spec_keys(const QuantSpec& spec) {
  const DefaultFloatEnvironment environment;
  Table keys = std::visit([](const auto& format) { return write_changed_fields(format); }, spec.format);
  append(keys, write_changed_fields(spec));
  return keys;
}

std::string quant_spec_text(const QuantSpec& spec) {
  return text_form(format_name(spec.format), quant_spec_keys(spec));
}

QuantSpec parse_quant_spec_text(std::string_view text) {
  const std::string where = fmt::format("quantization \"{}\"", text);
  const TextForm form = parse_text_form(text, where);
  return parse_quant_spec(form.name, form.keys, where);
}

namespace {

bool has_learnable_scale(const Format& format) {
  const bool has_signs = std::holds_alternative<Ternary>(format) || std::holds_alternative<Binary>(format) ||
                         std::holds_alternative<BinaryResidual>(format);
  return has_signs || std::visit([]<class F>(const F&) { return ScaledFormat<F>; }, format);
}

void validate_group_size(const QuantSpec& spec, const std::string& where) {
  const bool in_groups = spec.granularity == Granularity::kGroup;
  if (in_groups && !spec.group_size) {
    fail("{}: key \"group_size\" is missing: granularity = \"group\" needs the elements of a group", where);
  }
  if (!in_groups && spec.group_size) {
    fail("{}: key \"group_size\": got {}, which only granularity = \"group\" reads", where, *spec.group_size);
  }
  if (in_groups && *spec.group_size < 1) {
    fail("{}: key \"group_size\": got {}, expected at least 1", where, *spec.group_size);
  }
}

void validate_granularity(const QuantSpec& spec, const std::string& where) {
  validate_group_size(spec, where);
  const bool learned = spec.scale_rule == ScaleRule::kLearned;
  const auto ask = [&](auto question) { return std::visit(question, spec.format); };
  const bool channels = ask([](const auto& format) { return format.groups_are_channels(); });
  if (spec.granularity != Granularity::kTensor) {
    const char* conflict = ask([](const auto& format) { return format.channel_conflict(); });
    if (conflict != nullptr && !learned) {
      fail("{}: key \"granularity\": got \"{}\", expected \"tensor\": {}", where, enum_name(spec.granularity),
           conflict);
    }
  }
  if (spec.granularity != Granularity::kTensor && learned &&
      std::holds_alternative<BinaryResidual>(spec.format)) {
    fail("{}: key \"granularity\": got \"{}\", expected \"tensor\" where binary_residual learns its gammas",
         where, enum_name(spec.granularity));
  }
  if (spec.granularity == Granularity::kGroup && channels) {
    fail("{}: key \"granularity\": got \"group\", but the format's own keys say channel", where);
  }
  if (spec.axis != 0 && spec.granularity == Granularity::kTensor && !channels) {
    fail("{}: key \"axis\": got {}, which only granularity = \"channel\" and \"group\" read", where,
         spec.axis);
  }
}

}  // namespace

void validate(const QuantSpec& spec, const std::string& where) {
  validate(spec.format, where);
  const bool learned = spec.scale_rule == ScaleRule::kLearned;
  if (learned && !has_learnable_scale(spec.format)) {
    fail("{}: key \"scale_rule\": got \"learned\", expected \"given\": {} has no scale to train", where,
         format_name(spec.format));
  }
  validate_granularity(spec, where);
  if (!spec.block_axis) return;
  const std::optional<BlockSize> blocks = block_size(spec.format);
  if (!blocks || !blocks->is_single()) {
    fail("{}: key \"block_axis\": got {}, which only a block_size of one number reads", where,
         *spec.block_axis);
  }
}

void validate_with_scale(const QuantSpec& spec, const std::string& where) {
  validate(spec, where);
  if (spec.scale_rule == ScaleRule::kLearned) {
    fail("{}: scale_rule = \"learned\" needs a network, whose parameter the scale is", where);
  }
}

int64_t storage_bits(const QuantSpec& spec, const Shape& shape) {
  validate(spec, "storage");
  const int64_t count = element_count(shape);
  const double codes = std::ceil(bits_per_value(spec.format) * static_cast<double>(count));
  DETENT_CHECK(codes < 0x1p62, "{} bits", codes);
  if (count == 0) return 0;
  constexpr int64_t kByteBits = 8;
  return std::visit(
      [&]<class F>(const F& format) {
        int64_t bits = static_cast<int64_t>(codes);
        for (const ParameterStream& stream : parameter_streams(spec.format)) {
          bits += make_grouping(spec, shape).groups() * stream.per_group * kByteBits *
                  static_cast<int64_t>(dtype_size(stream.dtype));
        }
        if constexpr (BlockFormat<F>) bits += block_layout(spec, shape)->block_count() * format.shared_bits();
        return bits;
      },
      spec.format);
}

}  // namespace detent
