#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "detent/hardware/circuit.h"
#include "detent/hardware/verilog.h"

namespace detent {
namespace {

/// Name of a signal so many clock cycles after the inputs.
std::string name_at(const Signal& signal, int stage) {
  return stage == signal.stage ? signal.name : fmt::format("{}$at{}", signal.name, stage);
}

/// An element of a signal in the bits of a wider range of codes.
std::string extended(const std::string& name, int64_t element, const WireRange& from, const WireRange& to) {
  const int64_t width = from.width();
  const std::string bits = fmt::format("{}[{}:{}]", name, (element + 1) * width - 1, element * width);
  const int64_t more = to.width() - width;
  if (more <= 0) return bits;
  const std::string fill = from.is_signed() ? fmt::format("{}[{}]", name, (element + 1) * width - 1) : "1'b0";
  return fmt::format("{{{}{{{}}}}}, {}", more, fill, bits);
}

/// A concatenation of wires, the last first; neighbours of one signal are one part.
std::string bundle(const Circuit& circuit, const std::vector<Wire>& wires, const WireRange& codes,
                   int stage) {
  std::vector<std::string> parts;
  const int width = codes.width();
  for (size_t end = wires.size(); end > 0;) {
    const Wire& last = wires[end - 1];
    size_t begin = end - 1;
    if (last.is_constant()) {
      const uint64_t mask = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
      parts.push_back(fmt::format("{}'d{}", width, static_cast<uint64_t>(last.element) & mask));
    } else {
      const Signal& signal = circuit.signals[static_cast<size_t>(last.signal)];
      const std::string name = name_at(signal, stage);
      const bool as_is = signal.codes.width() == width;
      while (as_is && begin > 0 && wires[begin - 1].signal == last.signal &&
             wires[begin - 1].element + 1 == wires[begin].element)
        --begin;
      parts.push_back(
          as_is ? fmt::format("{}[{}:{}]", name, (last.element + 1) * width - 1, wires[begin].element * width)
                : extended(name, last.element, signal.codes, codes));
    }
    end = begin;
  }
  return parts.size() == 1 && parts[0].find(',') == std::string::npos
             ? parts[0]
             : fmt::format("{{{}}}", fmt::join(parts, ",\n          "));
}

/// The last stage at which each signal is read.
std::map<int32_t, int> last_reads(const Circuit& circuit) {
  std::map<int32_t, int> last;
  const auto note = [&](const std::vector<Wire>& wires, int stage) {
    for (const Wire& wire : wires) {
      if (!wire.is_constant()) last[wire.signal] = std::max(last[wire.signal], stage);
    }
  };
  for (const Layer& layer : circuit.layers) note(layer.inputs, reading_stage(circuit, layer.inputs));
  for (const CircuitPort& port : circuit.outputs) note(port.wires, circuit.latency);
  return last;
}

std::string ports_comment(const Circuit& circuit) {
  std::string text = fmt::format(
      "// {}: one sample a clock cycle, its outputs {} clock cycle{} after its inputs.\n"
      "//   clk      rising edges count{}\n",
      circuit.name, circuit.latency, circuit.latency == 1 ? "" : "s",
      circuit.latency == 0 ? "; not used, as there are no registers" : "");
  const auto describe = [&](const CircuitPort& port, const char* direction) {
    const Signal& signal = circuit.signal_of(port);
    text += fmt::format(
        "//   {:<8} {}: \"{}\" {}, element i in row-major order in bits [{} * i +: {}], {}binary codes of {} "
        "to {};\n"
        "//            value = {}\n",
        port.name, direction, port.source, shape_text(port.shape), signal.codes.width(), signal.codes.width(),
        signal.codes.is_signed() ? "two's complement " : "", signal.codes.low, signal.codes.high,
        meaning_text(signal.meaning));
  };
  for (const CircuitPort& port : circuit.inputs) describe(port, "input");
  for (const CircuitPort& port : circuit.outputs) describe(port, "output");
  return text;
}

int64_t port_bits(const Circuit& circuit, const CircuitPort& port) {
  return std::ssize(port.wires) * circuit.signal_of(port).codes.width();
}

std::string registers_text(const Signal& signal, int from, int to, const std::string& first) {
  std::string text;
  std::string before = first;
  for (int stage = from + 1; stage <= to; ++stage) {
    const std::string name = name_at(signal, stage);
    text += fmt::format("  reg {}{};\n  always @(posedge clk) {} <= {};\n", vector_range(signal.bits()), name,
                        name, before);
    before = name;
  }
  return text;
}

}  // namespace

std::string top_verilog(const Circuit& circuit) {
  std::string text = ports_comment(circuit) + "/* verilator lint_off UNUSED */\n" +
                     fmt::format("module {} (\n    input wire clk", circuit.name);
  for (const CircuitPort& port : circuit.inputs)
    text += fmt::format(",\n    input wire {}{}", vector_range(port_bits(circuit, port)), port.name);
  for (const CircuitPort& port : circuit.outputs)
    text += fmt::format(",\n    output wire {}{}", vector_range(port_bits(circuit, port)), port.name);
  text += "\n);\n";
  const std::map<int32_t, int> last = last_reads(circuit);
  const auto last_read = [&](int32_t signal, int stage) {
    const auto found = last.find(signal);
    return found == last.end() ? stage : std::max(found->second, stage);
  };
  std::set<int32_t> given;
  for (const Layer& layer : circuit.layers) given.insert(layer.output);
  for (size_t i = 0; i < circuit.signals.size(); ++i) {
    const auto number = static_cast<int32_t>(i);
    if (given.contains(number)) continue;
    const Signal& signal = circuit.signals[i];
    text += registers_text(signal, 0, last_read(number, 0), signal.name);
  }
  for (const Layer& layer : circuit.layers) {
    const Signal& signal = circuit.signals[static_cast<size_t>(layer.output)];
    const int stage = reading_stage(circuit, layer.inputs);
    const bool registered = signal.stage > stage;
    const std::string result = registered ? signal.name + "$next" : signal.name;
    text += fmt::format("\n  wire {}{};\n  {} {}$layer (\n      .x({}),\n      .y({}));\n",
                        vector_range(signal.bits()), result, layer.module, signal.name,
                        bundle(circuit, layer.inputs, layer.input_codes, stage), result);
    text += registers_text(signal, stage, last_read(layer.output, signal.stage), result);
  }
  text += "\n";
  for (const CircuitPort& port : circuit.outputs) {
    text += fmt::format("  assign {} = {};\n", port.name,
                        bundle(circuit, port.wires, circuit.signal_of(port).codes, circuit.latency));
  }
  return text + "endmodule\n";
}

// NOLINTNEXTLINE(readability-function-size): a text
std::string testbench_verilog(const Circuit& circuit, size_t vectors) {
  std::string text = fmt::format(
      "// Gives {0} the vectors of the files of its inputs, one a clock cycle, and compares its outputs with "
      "theirs.\n"
      "module {0}_tb;\n"
      "  localparam VECTORS = {1};\n"
      "  localparam LATENCY = {2};\n"
      "  reg clk = 0;\n"
      "  integer i, k, differing_bits, differing_vectors, differs;\n",
      circuit.name, vectors, circuit.latency);
  std::vector<std::string> connections = {".clk(clk)"};
  std::string loads;
  std::string drives;
  std::string compares;
  for (const CircuitPort& port : circuit.inputs) {
    const std::string range = vector_range(port_bits(circuit, port));
    text += fmt::format("  reg {}{};\n  reg {}{}$of [0:VECTORS-1];\n", range, port.name, range, port.name);
    loads += fmt::format("    $readmemh(\"{0}.hex\", {0}$of);\n", port.name);
    drives += fmt::format("      if (i < VECTORS) {0} = {0}$of[i];\n", port.name);
    connections.push_back(fmt::format(".{0}({0})", port.name));
  }
  for (const CircuitPort& port : circuit.outputs) {
    const int64_t bits = port_bits(circuit, port);
    text += fmt::format("  wire {0}{1};\n  reg {0}{1}$of [0:VECTORS-1];\n  reg {0}{1}$expected;\n",
                        vector_range(bits), port.name);
    loads += fmt::format("    $readmemh(\"{0}.hex\", {0}$of);\n", port.name);
    compares += fmt::format(
        "        {0}$expected = {0}$of[i - LATENCY];\n"
        "        if ({0} !== {0}$expected) begin\n"
        "          differs = 1;\n"
        "          for (k = 0; k < {1}; k = k + 1)\n"
        "            if ({0}[k] !== {0}$expected[k]) differing_bits = differing_bits + 1;\n"
        "        end\n",
        port.name, bits);
    connections.push_back(fmt::format(".{0}({0})", port.name));
  }
  return text + fmt::format(
                    "  {} dut ({});\n"
                    "  initial begin\n"
                    "{}"
                    "    differing_bits = 0;\n"
                    "    differing_vectors = 0;\n"
                    "    for (i = 0; i < VECTORS + LATENCY; i = i + 1) begin\n"
                    "{}"
                    "      #1;\n"
                    "      if (i >= LATENCY) begin\n"
                    "        differs = 0;\n"
                    "{}"
                    "        if (differs != 0) begin\n"
                    "          differing_vectors = differing_vectors + 1;\n"
                    "          if (differing_vectors <= 3) $display(\"vector %0d differs\", i - LATENCY);\n"
                    "        end\n"
                    "      end\n"
                    "      clk = 1;\n"
                    "      #1 clk = 0;\n"
                    "    end\n"
                    "    $display(\"%0d vectors, %0d differ in %0d bits\", VECTORS, differing_vectors, "
                    "differing_bits);\n"
                    "    $finish;\n"
                    "  end\n"
                    "endmodule\n",
                    circuit.name, fmt::join(connections, ", "), loads, drives, compares);
}

}  // namespace detent
