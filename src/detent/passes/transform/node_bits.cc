#include "detent/passes/transform/node_bits.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include <fmt/ranges.h>

#include "detent/core/name_pattern.h"

namespace detent {
namespace {

[[noreturn]] void refuse(const std::string& where, std::string_view got, std::string_view expected) {
  fail("{}: got \"{}\", expected {}", where, got, expected);
}

/// "4", "int4", "uint4" or "nvfp4".
NodeWidths::Codes parse_codes(std::string_view text, const std::string& where) {
  if (text == "float") refuse(where, text, "a width, or float32 (keep_float leaves nodes in float)");
  if (const std::optional<int> width = parse_width(text)) return {.width = *width};
  const bool is_name = !text.empty() && std::isalpha(static_cast<unsigned char>(text.front())) != 0;
  if (!is_name) refuse(where, text, "2 to 16 bits, or int2 to int16, uint2 to uint16, or a number format");
  OperandFormat format = OperandFormat::parse(text, where);
  if (!format.is_integer()) return {.format = std::move(format.other), .is_float = format.is_float};
  return {.width = format.integer.width, .is_signed = format.integer.is_signed};
}

NodeWidths::Codes codes_of(const Value& value, const std::string& where) {
  if (const auto* text = value.get_if<std::string>()) return parse_codes(*text, where);
  return parse_codes(value_text(value), where);
}

/// "4", "4/8" or "/8".
NodeWidths parse_widths(const std::string& pattern, std::string_view text, const std::string& where) {
  NodeWidths widths{pattern, {}, {}};
  const size_t slash = text.find('/');
  if (slash != 0) widths.weights = parse_codes(text.substr(0, slash), where);
  if (slash != std::string_view::npos) widths.activations = parse_codes(text.substr(slash + 1), where);
  return widths;
}

NodeWidths parse_table(const std::string& pattern, const Table& table, const std::string& where) {
  NodeWidths widths{pattern, {}, {}};
  for (const auto& [key, value] : table) {
    const std::string place = fmt::format("{}, \"{}\"", where, key);
    if (key == "weights") {
      widths.weights = codes_of(value, place);
    } else if (key == "activations") {
      widths.activations = codes_of(value, place);
    } else {
      const std::vector<std::string> known = {"weights", "activations"};
      fail("{}: {}", where, unknown_name_message("key", key, known));
    }
  }
  if (table.empty()) fail("{}: got an empty table, expected weights, activations or both", where);
  return widths;
}

NodeWidths parse_entry(const std::string& pattern, const Value& value, const std::string& where) {
  [[maybe_unused]] const NamePattern checked(pattern, where);
  const std::string place = fmt::format("{}: \"{}\"", where, pattern);
  NodeWidths widths;
  if (const auto* table = value.get_if<Table>()) {
    widths = parse_table(pattern, *table, place);
  } else if (const auto* text = value.get_if<std::string>()) {
    widths = parse_widths(pattern, *text, place);
  } else {
    widths = {pattern, codes_of(value, place), {}};
  }
  if (widths.weights && widths.weights->is_signed == false) {
    fail("{}: got uint{} for weights, expected a signed type: weights are symmetric", place,
         widths.weights->width);
  }
  return widths;
}

/// Cut at commas, except at those in brackets.
std::vector<std::string> entries_of(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c == ',' && depth <= 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// The place of the first "=" outside of brackets, as that of a format's key comes later; of the last one
/// where brackets do not close.
size_t end_of_pattern(const std::string& entry) {
  int depth = 0;
  for (size_t i = 0; i < entry.size(); ++i) {
    if (entry[i] == '(' || entry[i] == '[' || entry[i] == '{') ++depth;
    if (entry[i] == ')' || entry[i] == ']' || entry[i] == '}') --depth;
    if (entry[i] == '=' && depth <= 0) return i;
  }
  return entry.rfind('=');
}

NodeBits parse_text(const std::string& text, const std::string& where) {
  NodeBits bits;
  for (const std::string& entry : entries_of(text)) {
    const size_t equals = end_of_pattern(entry);
    if (equals == std::string::npos || equals == 0) {
      refuse(where, entry, "PATTERN=WEIGHTS, PATTERN=WEIGHTS/ACTIVATIONS or PATTERN=/ACTIVATIONS");
    }
    bits.entries.push_back(parse_entry(entry.substr(0, equals), Value(entry.substr(equals + 1)), where));
  }
  return bits;
}

std::string codes_text(const NodeWidths::Codes& codes) {
  if (codes.format || codes.is_float) return *codes.like({}).to_value().get_if<std::string>();
  if (!codes.is_signed) return std::to_string(codes.width);
  return fmt::format("{}int{}", *codes.is_signed ? "" : "u", codes.width);
}

}  // namespace

Value NodeBits::to_value() const {
  if (entries.empty()) return {};
  std::string text;
  for (const NodeWidths& entry : entries) {
    if (!text.empty()) text += ",";
    text += entry.pattern + "=";
    if (entry.weights) text += codes_text(*entry.weights);
    if (entry.activations) text += "/" + codes_text(*entry.activations);
  }
  return text;
}

NodeBits NodeBits::from_value(const Value& value, const std::string& where) {
  if (value.is_na()) return {};
  if (const auto* text = value.get_if<std::string>()) return parse_text(*text, where);
  const auto* table = value.get_if<Table>();
  if (table == nullptr) {
    fail("{}: got {} ({}), expected a table of patterns, or text {}", where, value_text(value),
         value.kind_name(), field_type());
  }
  NodeBits bits;
  for (const auto& [pattern, widths] : *table) {
    bits.entries.push_back(parse_entry(pattern, widths, where));
  }
  return bits;
}

void NodesWithWidths::add(const Graph& graph, const CodePlan& plan, const std::string& prefix) {
  const auto name_at = [&](size_t position) { return prefix + graph.nodes()[position].name; };
  for (const std::string& name : graph.node_names()) names.push_back(prefix + name);
  for (const size_t position : plan.weighted) weighted.insert(name_at(position));
  for (const size_t position : plan.rows) weighted.insert(name_at(position));
  for (const ConstantWeight& weight : plan.constants) weighted.insert(name_at(weight.node));
  taking.insert(weighted.begin(), weighted.end());
  for (const CodeGroup& group : plan.groups)
    for (const CodeRead& read : group.reads) taking.insert(name_at(read.node));
  for (const std::string& name : plan.in_float)
    if (!weighted.contains(prefix + name)) in_float.insert(prefix + name);
}

void NodesWithWidths::add_in_float(const Graph& graph, const std::string& prefix) {
  for (const std::string& name : graph.node_names()) {
    names.push_back(prefix + name);
    in_float.insert(prefix + name);
  }
}

NodeBitsMatcher::NodeBitsMatcher(const NodeBits& formats, const NodeBits& bits, const std::string& where,
                                 std::string prefix)
    : prefix_(std::move(prefix)) {
  for (const auto& [key, given] : {std::pair("formats", &formats), std::pair("bits", &bits)}) {
    const std::string place = fmt::format("{}: key \"{}\"", where, key);
    for (const NodeWidths& widths : given->entries)
      entries_.push_back({widths, NamePattern(widths.pattern, place), place});
  }
}

const NodeWidths* NodeBitsMatcher::find(const std::string& node) const {
  const std::string name = prefix_ + node;
  const auto found = std::ranges::find_if(entries_, [&](const Entry& e) { return e.pattern.matches(name); });
  return found == entries_.end() ? nullptr : &found->widths;
}

void NodeBitsMatcher::check_all_used(const NodesWithWidths& nodes, const Warning& warn) const {
  for (const Entry& entry : entries_) check_used(entry, nodes, warn);
}

void NodeBitsMatcher::check_used(const Entry& checked, const NodesWithWidths& nodes,
                                 const Warning& warn) const {
  const NodeWidths& entry = checked.widths;
  const NamePattern& pattern = checked.pattern;
  const std::string& where = checked.where;
  std::vector<std::string> left;
  std::ranges::copy_if(nodes.names, std::back_inserter(left),
                       [&](const std::string& name) { return pattern.matches(name); });
  if (left.empty()) fail("{}: {}", where, unmatched_pattern_message(entry.pattern, nodes.names));
  if (std::ranges::all_of(left, [&](const std::string& name) { return nodes.in_float.contains(name); })) {
    return warn(fmt::format("{}: \"{}\" matches only nodes that stay in float", where, entry.pattern));
  }
  const auto takes_widths = [&](const std::string& name) { return nodes.taking.contains(name); };
  if (std::ranges::none_of(left, takes_widths)) {
    fail("{}: \"{}\" matches only {}, which move or compare integers (nodes with widths: {})", where,
         entry.pattern, fmt::join(left, ", "), fmt::join(nodes.taking, ", "));
  }
  std::erase_if(left, [&](const std::string& name) { return !takes_widths(name) || find(name) != &entry; });
  if (left.empty()) {
    return warn(fmt::format("{}: \"{}\" matches only nodes that earlier entries match, and the first counts",
                            where, entry.pattern));
  }
  const bool weights_used =
      std::ranges::any_of(left, [&](const std::string& name) { return nodes.weighted.contains(name); });
  if (entry.weights && !weights_used) {
    fail("{}: \"{}\" gives weights {} bits, but {} has none: \"{}=/{}\" is for its quantized inputs", where,
         entry.pattern, entry.weights->width, fmt::join(left, ", "), entry.pattern, entry.weights->width);
  }
}

}  // namespace detent
