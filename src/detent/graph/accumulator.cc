#include "detent/graph/accumulator.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "detent/core/error.h"
#include "detent/graph/graph.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

constexpr int kMostIntegerBits = 32;
constexpr int kLeastExponentBits = 4;
constexpr int kMostExponentBits = 8;
constexpr int kMostFractionBits = 23;

/// Sums of codes are integers: the largest float must be one too.
int most_fraction_bits(int exponent_bits) {
  return std::min(kMostFractionBits, (1 << (exponent_bits - 1)) - 1);
}

struct NamedFloat {
  std::string_view name;
  int width;
  int exponent_bits;
};
constexpr std::array kNamedFloats = {NamedFloat{"fp16", 16, 5}, NamedFloat{"bf16", 16, 8},
                                     NamedFloat{"fp22", 22, 8}, NamedFloat{"fp32", 32, 8}};

[[noreturn]] void refuse(std::string_view text) {
  fail(
      "got the accumulator \"{}\", expected int2 to int{}, with :saturate (as without) or :wrap, or fp16, "
      "bf16, "
      "fp22, fp32, or fp_e<{} to {}>m<1 to {}> (e4: to m{}, e5: to m{})",
      text, kMostIntegerBits, kLeastExponentBits, kMostExponentBits, kMostFractionBits, most_fraction_bits(4),
      most_fraction_bits(5));
}

/// Takes a number off the front of `text`; nullopt where there is none in that range.
std::optional<int> taken_number(std::string_view& text, int least, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < least || number > most) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view beginning) {
  if (!text.starts_with(beginning)) return false;
  text.remove_prefix(beginning.size());
  return true;
}

std::optional<Accumulator> parsed_float(std::string_view text) {
  for (const NamedFloat& known : kNamedFloats) {
    if (text == known.name) return Accumulator{known.width, known.exponent_bits};
  }
  if (!take(text, "fp_e")) return std::nullopt;
  const std::optional<int> exponent = taken_number(text, kLeastExponentBits, kMostExponentBits);
  if (!exponent || !take(text, "m")) return std::nullopt;
  const std::optional<int> fraction = taken_number(text, 1, most_fraction_bits(*exponent));
  if (!fraction || !text.empty()) return std::nullopt;
  return Accumulator{1 + *exponent + *fraction, *exponent};
}

}  // namespace

double Accumulator::largest() const {
  return std::ldexp(2.0 - std::ldexp(1.0, -fraction_bits()), (1 << (exponent_bits - 1)) - 1);
}

double Accumulator::least_normal() const { return std::ldexp(1.0, 2 - (1 << (exponent_bits - 1))); }

bool Accumulator::holds(int64_t magnitude) const {
  if (!is_float()) return magnitude < int64_t{1} << (width - 1);
  return magnitude <= int64_t{1} << (fraction_bits() + 1) && static_cast<double>(magnitude) <= largest();
}

std::string Accumulator::text() const {
  if (!is_float()) return fmt::format("int{}{}", width, overflow == Overflow::kWrap ? ":wrap" : "");
  for (const NamedFloat& known : kNamedFloats) {
    if (width == known.width && exponent_bits == known.exponent_bits) return std::string(known.name);
  }
  return fmt::format("fp_e{}m{}", exponent_bits, fraction_bits());
}

Accumulator Accumulator::parse(std::string_view text) {
  if (const std::optional<Accumulator> found = parsed_float(text)) return *found;
  std::string_view rest = text;
  if (!take(rest, "int")) refuse(text);
  const std::optional<int> width = taken_number(rest, 2, kMostIntegerBits);
  if (!width) refuse(text);
  if (rest.empty() || rest == ":saturate") return {.width = *width};
  if (rest == ":wrap") return {.width = *width, .overflow = Overflow::kWrap};
  refuse(text);
}

std::optional<Accumulator> accumulator_of(const Node& node) {
  const Value* value = node.attributes.find(kAccumulatorAttribute);
  const auto* text = value == nullptr ? nullptr : value->get_if<std::string>();
  return text == nullptr ? std::nullopt : std::optional(Accumulator::parse(*text));
}

void set_accumulator(Node& node, const Accumulator& accumulator) {
  DETENT_CHECK(is_weighted_sum(node), "an accumulator of {}", node.op);
  node.attributes[kAccumulatorAttribute] = accumulator.text();
}

void verify_accumulator(const Node& node) {
  const Value* value = node.attributes.find(kAccumulatorAttribute);
  if (value == nullptr) return;
  const std::string where =
      fmt::format("node \"{}\" ({}): attribute \"{}\"", node.name, node.op, kAccumulatorAttribute);
  if (!is_weighted_sum(node)) fail("{}: only layers with weights have accumulators", where);
  const auto* text = value->get_if<std::string>();
  if (text == nullptr) fail("{}: got {}, expected text", where, value_text(*value));
  try {
    Accumulator::parse(*text);
  } catch (const Error& error) {
    fail("{}: {}", where, error.what());
  }
}

}  // namespace detent
