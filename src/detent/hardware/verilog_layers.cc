#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>

#include "detent/core/error.h"
#include "detent/hardware/verilog.h"

namespace detent {
namespace {

/// Bits that hold the codes in two's complement, whatever their signs.
int signed_width(const WireRange& codes) { return codes.is_signed() ? codes.width() : codes.width() + 1; }

/// Element `index` of a vector of codes, as a signed expression.
std::string signed_element(std::string_view vector, int64_t index, const WireRange& codes) {
  const int64_t width = codes.width();
  const std::string bits = fmt::format("{}[{}:{}]", vector, (index + 1) * width - 1, index * width);
  return codes.is_signed() ? fmt::format("$signed({})", bits) : fmt::format("$signed({{1'b0, {}}})", bits);
}

std::string module_head(std::string_view name, int64_t input_bits, int64_t output_bits) {
  return fmt::format("module {} (\n    input wire {}x,\n    output wire {}y\n);\n", name,
                     vector_range(input_bits), vector_range(output_bits));
}

std::string assignment(int64_t element, int width, std::string_view value) {
  return fmt::format("  assign y[{}:{}] = {};\n", (element + 1) * width - 1, element * width, value);
}

/// Lines of at most so many operands.
std::string sum_text(const std::vector<std::string>& terms) {
  constexpr size_t kTermsALine = 6;
  std::string text;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (i > 0 && i % kTermsALine == 0) text += "\n     ";
    text += i == 0 && terms[i].starts_with("+ ") ? terms[i].substr(2) : (i == 0 ? "" : " ") + terms[i];
  }
  return text.empty() ? "0" : text;
}

/// A wire `q<suffix>` with the code of the sum `s<suffix>`, and what it is computed of.
std::string requantizer_text(const Requantizer& function, const WireRange& sums, std::string_view suffix) {
  const std::string s = fmt::format("s{}", suffix);
  const int code_width = signed_width(function.codes);
  if (function.kind == Requantizer::Kind::kThresholds) {
    std::vector<std::string> terms = {"+ " + signed_literal(function.codes.low, code_width)};
    for (const int64_t threshold : function.thresholds)
      terms.push_back(fmt::format("+ ({} >= {})", s, signed_literal(threshold, signed_width(sums))));
    return fmt::format("  wire signed {}q{} = {};\n", vector_range(code_width), suffix, sum_text(terms));
  }
  const bool to_even = function.kind == Requantizer::Kind::kToEven;
  const int64_t half = to_even && function.shift > 0 ? (int64_t{1} << (function.shift - 1)) : function.offset;
  const WireRange products{
      std::min<int64_t>(sums.low * function.multiplier, 0) + std::min<int64_t>(half, 0),
      std::max<int64_t>(sums.high * function.multiplier, 0) + std::max<int64_t>(half, 0)};
  // Codes are counted from the zero point until they are rounded.
  const int64_t added = to_even ? function.offset : 0;
  const int width = std::max({signed_width(products), code_width, function.shift + 1,
                              signed_width({-std::abs(added), std::abs(added)})}) +
                    1;
  const std::string product =
      function.multiplier == 1 ? s : fmt::format("{} * {}", s, signed_literal(function.multiplier, width));
  std::string text;
  if (!to_even) {
    text = fmt::format("  wire signed {}p{} = {} + {};\n", vector_range(width), suffix, product,
                       signed_literal(function.offset, width));
  } else if (function.shift == 0) {
    text = fmt::format("  wire signed {}p{} = {};\n", vector_range(width), suffix, product);
  } else {
    text = fmt::format("  wire signed {}m{} = {};\n", vector_range(width), suffix, product) +
           fmt::format("  wire signed {}p{} = m{} + {} + $signed({{1'b0, m{}[{}]}});\n", vector_range(width),
                       suffix, suffix, signed_literal(half - 1, width), suffix, function.shift);
  }
  text += fmt::format("  wire signed {}v{} = (p{} >>> {}) + {};\n", vector_range(width), suffix, suffix,
                      function.shift, signed_literal(added, width));
  const std::string low = signed_literal(function.codes.low, width);
  const std::string high = signed_literal(function.codes.high, width);
  return text + fmt::format("  wire signed {}q{} = v{} < {} ? {} : v{} > {} ? {} : v{};\n",
                            vector_range(width), suffix, suffix, low, low, suffix, high, high, suffix);
}

std::string channel_text(const SumBody::Channel& channel, size_t index) {
  const int width = signed_width(channel.sums);
  std::vector<std::string> terms;
  for (const auto& [tap, weight] : channel.terms) {
    const char* sign = weight < 0 ? "-" : "+";
    const int64_t magnitude = std::abs(int64_t{weight});
    if (magnitude == 1) {
      terms.push_back(fmt::format("{} x{}", sign, tap));
    } else {
      const int bits = std::max(width, signed_width({0, magnitude}));
      terms.push_back(fmt::format("{} {} * x{}", sign, signed_literal(magnitude, bits), tap));
    }
  }
  if (channel.bias != 0 || terms.empty()) {
    const int bits = std::max(width, signed_width({0, std::abs(channel.bias)}));
    terms.push_back(
        fmt::format("{} {}", channel.bias < 0 ? "-" : "+", signed_literal(std::abs(channel.bias), bits)));
  }
  return fmt::format("  wire signed {}s{} =\n      {};\n", vector_range(width), index, sum_text(terms));
}

/// Taps of one window to codes of all channels.
std::string window_module(const std::string& name, const SumBody& body, const WireRange& input,
                          const WireRange& output) {
  const auto taps = static_cast<int64_t>(body.windows.front().size());
  std::string text = module_head(name, taps * input.width(), std::ssize(body.channels) * output.width());
  std::vector<bool> used(static_cast<size_t>(taps));
  for (const SumBody::Channel& channel : body.channels) {
    for (const SumBody::Term& term : channel.terms) used[static_cast<size_t>(term.tap)] = true;
  }
  for (int64_t t = 0; t < taps; ++t) {
    if (!used[static_cast<size_t>(t)]) continue;
    text += fmt::format("  wire signed {}x{} = {};\n", vector_range(signed_width(input)), t,
                        signed_element("x", t, input));
  }
  for (size_t c = 0; c < body.channels.size(); ++c) {
    const SumBody::Channel& channel = body.channels[c];
    text += channel_text(channel, c);
    if (channel.requantizer) text += requantizer_text(*channel.requantizer, channel.sums, std::to_string(c));
    text += assignment(static_cast<int64_t>(c), output.width(),
                       fmt::format("{}{}", channel.requantizer ? 'q' : 's', c));
  }
  return text + "endmodule\n";
}

bool is_whole_input(const SumBody& body, size_t inputs) {
  if (body.windows.size() != 1 || body.windows.front().size() != inputs) return false;
  for (size_t i = 0; i < inputs; ++i) {
    if (body.windows.front()[i] != static_cast<int32_t>(i)) return false;
  }
  return true;
}

std::string body_text(const SumBody& body, const Layer& layer, const Signal& output,
                      const LayerLogic* /*logic*/) {
  const WireRange& codes = layer.input_codes;
  if (is_whole_input(body, layer.inputs.size()))
    return window_module(layer.module, body, codes, output.codes);
  const std::string window = layer.module + "_window";
  std::string text = window_module(window, body, codes, output.codes) + "\n" +
                     module_head(layer.module, std::ssize(layer.inputs) * codes.width(), output.bits());
  const int64_t positions = std::ssize(body.windows);
  const int64_t channels = std::ssize(body.channels);
  const int in = codes.width();
  const int out = output.codes.width();
  for (int64_t p = 0; p < positions; ++p) {
    const auto& taps = body.windows[static_cast<size_t>(p)];
    std::vector<std::string> parts;
    for (size_t t = taps.size(); t-- > 0;) {
      const int64_t tap = taps[t];
      parts.push_back(tap == SumBody::kPadding
                          ? fmt::format("{}'d{}", in,
                                        static_cast<uint64_t>(body.padding_code) & ((uint64_t{1} << in) - 1))
                          : fmt::format("x[{}:{}]", (tap + 1) * in - 1, tap * in));
    }
    text += fmt::format("  wire {}o{};\n  {} w{} (\n      .x({{{}}}),\n      .y(o{}));\n",
                        vector_range(channels * out), p, window, p, fmt::join(parts, ", "), p);
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t element = body.channels_last ? p * channels + c : c * positions + p;
      text += assignment(element, out, fmt::format("o{}[{}:{}]", p, (c + 1) * out - 1, c * out));
    }
  }
  return text + "endmodule\n";
}

std::string body_text(const RequantizeBody& body, const Layer& layer, const Signal& output,
                      const LayerLogic* /*logic*/) {
  std::string text =
      module_head(layer.module, std::ssize(layer.inputs) * layer.input_codes.width(), output.bits());
  const int width = signed_width(layer.input_codes);
  for (size_t i = 0; i < body.of_element.size(); ++i) {
    text += fmt::format("  wire signed {}s{} = {};\n", vector_range(width), i,
                        signed_element("x", static_cast<int64_t>(i), layer.input_codes));
    text += requantizer_text(body.functions[static_cast<size_t>(body.of_element[i])], layer.input_codes,
                             std::to_string(i));
    text += assignment(static_cast<int64_t>(i), output.codes.width(), fmt::format("q{}", i));
  }
  return text + "endmodule\n";
}

std::string body_text(const LargestBody& body, const Layer& layer, const Signal& output,
                      const LayerLogic* /*logic*/) {
  std::string text =
      module_head(layer.module, std::ssize(layer.inputs) * layer.input_codes.width(), output.bits());
  const int width = signed_width(layer.input_codes);
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    text += fmt::format("  wire signed {}x{} = {};\n", vector_range(width), i,
                        signed_element("x", static_cast<int64_t>(i), layer.input_codes));
  }
  for (size_t w = 0; w < body.windows.size(); ++w) {
    const std::vector<int32_t>& window = body.windows[w];
    std::string largest = fmt::format("x{}", window.front());
    for (size_t k = 1; k < window.size(); ++k) {
      const std::string next = fmt::format("m{}_{}", w, k);
      text += fmt::format("  wire signed {}{} = {} > x{} ? {} : x{};\n", vector_range(width), next, largest,
                          window[k], largest, window[k]);
      largest = next;
    }
    text += assignment(static_cast<int64_t>(w), output.codes.width(), largest);
  }
  return text + "endmodule\n";
}

std::string bit_text(const LutNetlist& netlist, LutNetlist::Literal literal) {
  const uint32_t bit = LutNetlist::bit_of(literal);
  if (bit == LutNetlist::kZero) return LutNetlist::is_inverted(literal) ? "1'b1" : "1'b0";
  const std::string name =
      netlist.is_input(bit) ? fmt::format("x[{}]", netlist.input_index(bit)) : fmt::format("n{}", bit);
  return (LutNetlist::is_inverted(literal) ? "~" : "") + name;
}

/// A table as gates: choices by its last input first.
std::string gates_text(uint64_t table, std::span<const std::string> inputs) {
  const size_t entries = size_t{1} << inputs.size();
  const uint64_t all = entries == 64 ? ~uint64_t{0} : (uint64_t{1} << entries) - 1;
  if (table == 0) return "1'b0";
  if (table == all) return "1'b1";
  const std::string& last = inputs.back();
  const uint64_t half = (uint64_t{1} << (entries / 2)) - 1;
  const uint64_t low = table & half;
  const uint64_t high = table >> (entries / 2);
  const auto rest = inputs.first(inputs.size() - 1);
  if (low == high) return gates_text(low, rest);
  if (low == 0 && high == half) return last;
  if (low == half && high == 0) return "~" + last;
  if (low == 0) return fmt::format("({} & {})", last, gates_text(high, rest));
  if (high == 0) return fmt::format("(~{} & {})", last, gates_text(low, rest));
  if (low == half) return fmt::format("(~{} | {})", last, gates_text(high, rest));
  if (high == half) return fmt::format("({} | {})", last, gates_text(low, rest));
  if ((low ^ high) == half) return fmt::format("({} ^ {})", last, gates_text(low, rest));
  return fmt::format("({} ? {} : {})", last, gates_text(high, rest), gates_text(low, rest));
}

/// A table as a constant that is shifted.
std::string lookup_text(uint64_t table, std::span<const std::string> inputs) {
  std::vector<std::string> address(inputs.rbegin(), inputs.rend());
  return fmt::format("{}'h{:x} >> {{{}}}", size_t{1} << inputs.size(), table, fmt::join(address, ", "));
}

/// The tables, each as text that `text_of` makes of it.
template <class TextOf>
std::string tables_text(const LutNetlist& netlist, const TextOf& text_of) {
  std::string text;
  for (const LutNetlist::Lut& lut : netlist.luts()) {
    std::vector<std::string> inputs;
    for (const LutNetlist::Bit bit : lut.inputs)
      inputs.push_back(bit_text(netlist, LutNetlist::literal(bit)));
    text += fmt::format("  wire n{} = {};\n", lut.bit, text_of(lut.table, inputs));
  }
  return text;
}

/// Synthesis and Icarus take gates several times faster than look-ups; Verilator makes a fifth of the code of
/// look-ups.
std::string body_text(const LookupBody& /*body*/, const Layer& layer, const Signal& output,
                      const LayerLogic* logic) {
  DETENT_CHECK(logic != nullptr, "no logic of {}", layer.node);
  const LutNetlist& netlist = logic->netlist;
  std::string text =
      module_head(layer.module, std::ssize(layer.inputs) * layer.input_codes.width(), output.bits());
  if (!netlist.luts().empty()) {
    text += "`ifdef VERILATOR\n" + tables_text(netlist, lookup_text) + "`else\n" +
            tables_text(netlist, gates_text) + "`endif\n";
  }
  for (size_t i = 0; i < logic->outputs.size(); ++i)
    text += fmt::format("  assign y[{}] = {};\n", i, bit_text(netlist, logic->outputs[i]));
  return text + "endmodule\n";
}

}  // namespace

std::string signed_literal(int64_t value, int width) {
  return value < 0 ? fmt::format("-{}'sd{}", width, -value) : fmt::format("{}'sd{}", width, value);
}

std::string vector_range(int64_t bits) { return fmt::format("[{}:0] ", std::max<int64_t>(bits, 1) - 1); }

std::string layer_verilog(const Circuit& circuit, const Layer& layer, const LayerLogic* logic) {
  const Signal& output = circuit.signals[static_cast<size_t>(layer.output)];
  return fmt::format("// {} \"{}\": {} codes of {} to {} in, {} codes of {} to {} out, each {}\n", layer.op,
                     layer.node, layer.inputs.size(), layer.input_codes.low, layer.input_codes.high,
                     output.elements, output.codes.low, output.codes.high, meaning_text(output.meaning)) +
         "/* verilator lint_off WIDTH */\n/* verilator lint_off UNUSED */\n" +
         std::visit([&](const auto& body) { return body_text(body, layer, output, logic); }, layer.body);
}

}  // namespace detent
