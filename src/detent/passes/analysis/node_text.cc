#include "detent/passes/analysis/quantization_summary.h"

#include <algorithm>
#include <cctype>

#include "detent/core/error.h"

namespace detent {

std::string fx_opcode(const Node& node) {
  switch (node.mase_type) {
    case MaseType::kPlaceholder:
    case MaseType::kOutput:
    case MaseType::kGetAttr:
      return enum_name(node.mase_type);
    case MaseType::kImplicitFunc:
      return "call_method";
    default:
      return node.target.empty() ? "call_function" : "call_module";
  }
}

namespace {

/// The text of the spec, for people: a scale for each of 512 channels would fill a screen. In that text a
/// list is its numbers with an x between them, or after a single one.
std::string with_lists_counted(const QuantSpec& spec) {
  constexpr auto kMostShown = 4;
  const std::string text = quant_spec_text(spec);
  std::string result;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string part = text.substr(begin, end - begin);
    const size_t value = part.find('=') + 1;
    const auto separators = std::count(part.begin() + static_cast<int64_t>(value), part.end(), 'x');
    const bool is_list =
        value > 0 && (std::isdigit(static_cast<unsigned char>(part[value])) != 0 || part[value] == '-');
    if (is_list && separators >= kMostShown) {
      part = fmt::format("{}({} numbers)", part.substr(0, value), separators + 1);
    } else if (is_list && part.back() == 'x') {
      part.pop_back();
    }
    result += (begin == 0 ? "" : ",") + part;
    begin = end + 1;
  }
  return result;
}

}  // namespace

std::string operand_formats_text(const Node& node) {
  std::string text;
  for (const auto& [operand, quantizer] : node.quantization) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", operand, with_lists_counted(quantizer->spec));
  }
  return text;
}

}  // namespace detent
