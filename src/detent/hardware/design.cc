#include "detent/hardware/design.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "detent/hardware/circuit.h"
#include "detent/hardware/logic.h"

namespace detent {
namespace {

struct KindOfBody {
  const char* operator()(const SumBody&) const { return "sums"; }
  const char* operator()(const RequantizeBody&) const { return "requantization"; }
  const char* operator()(const LargestBody&) const { return "largest"; }
  const char* operator()(const LookupBody&) const { return "tables"; }
};

int64_t product_count(const SumBody& body) {
  int64_t count = 0;
  for (const SumBody::Channel& channel : body.channels) {
    count +=
        std::ranges::count_if(channel.terms, [](const SumBody::Term& t) { return std::abs(t.weight) > 1; });
  }
  return count * std::ssize(body.windows);
}

DesignResources resources_of(const Circuit& circuit, const std::vector<std::optional<LayerLogic>>& logic) {
  DesignResources resources;
  const std::vector<int64_t> registers = register_bits(circuit, logic);
  for (const int64_t bits : registers) resources.register_bits += bits;
  for (size_t i = 0; i < circuit.layers.size(); ++i) {
    const Layer& layer = circuit.layers[i];
    const Signal& output = circuit.signals[static_cast<size_t>(layer.output)];
    LayerResources& row = resources.layers.emplace_back();
    row.node = layer.node;
    row.module = layer.module;
    row.kind = std::visit(KindOfBody(), layer.body);
    row.inputs = std::ssize(layer.inputs);
    row.outputs = output.elements;
    row.register_bits = registers[static_cast<size_t>(layer.output)];
    if (const auto* sums = std::get_if<SumBody>(&layer.body)) row.products = product_count(*sums);
    row.luts_are_counted = logic[i].has_value();
    row.luts = logic[i] ? std::ssize(logic[i]->netlist.luts()) : estimated_luts(layer);
    resources.luts += row.luts;
    resources.luts_are_counted = resources.luts_are_counted && row.luts_are_counted;
    if (!logic[i]) continue;
    row.depth = logic[i]->depth;
    row.constant_outputs = logic[i]->constant_outputs;
    row.shared_outputs = logic[i]->shared_outputs;
    resources.deepest = std::max(resources.deepest, row.depth);
  }
  return resources;
}

std::string synthesis_script(const std::string& top, const std::vector<std::string>& sources) {
  return fmt::format(
      "# yosys -s synthesize.ys: 6-input tables ($lut) and registers that the design takes.\n"
      "read_verilog {}\n"
      "synth -flatten -lut 6 -top {}\n"
      "opt_clean -purge\n"
      "tee -o synthesis.txt stat\n",
      fmt::join(sources, " "), top);
}

std::string makefile(const std::string& top, const std::vector<std::string>& sources) {
  return fmt::format(
      "# Simulates the testbench with Verilator or Icarus Verilog, and synthesizes with yosys.\n"
      "SOURCES = {1}\n"
      "verilator:\n"
      "\tverilator --binary --timing -Wno-fatal -Wno-lint -Wno-style -MAKEFLAGS OPT_FAST=-O0 "
      "-MAKEFLAGS OPT_GLOBAL=-O0 --output-split 20000 "
      "--top-module {0}_tb --prefix Vtestbench "
      "-Mdir obj_dir "
      "$(SOURCES) {0}_tb.v\n"
      "\t./obj_dir/Vtestbench\n"
      "icarus:\n"
      "\tiverilog -g2005 -s {0}_tb -o {0}_tb.vvp $(SOURCES) {0}_tb.v\n"
      "\tvvp -n {0}_tb.vvp\n"
      "yosys:\n"
      "\tyosys -q -s synthesize.ys\n"
      ".PHONY: verilator icarus yosys\n",
      top, fmt::join(sources, " "));
}

Value meaning_value(const CodeMeaning& meaning) {
  if (const auto* affine = std::get_if<AffineMeaning>(&meaning))
    return Table{{"scale", static_cast<double>(affine->type.scale)},
                 {"zero_point", int64_t{affine->type.zero_point}}};
  const auto numbers = [](const std::vector<float>& values) {
    List list;
    for (const float value : values) list.emplace_back(static_cast<double>(value));
    return list;
  };
  if (const auto* list = std::get_if<ListMeaning>(&meaning)) return Table{{"values", numbers(list->values)}};
  return Table{{"scale", numbers(std::get<ScaledMeaning>(meaning).scale)}};
}

Value port_value(const Circuit& circuit, const CircuitPort& port) {
  const Signal& signal = circuit.signal_of(port);
  return Table{{"name", port.name},
               {"of", port.source},
               {"shape", port.shape},
               {"bits", std::ssize(port.wires) * signal.codes.width()},
               {"code_bits", int64_t{signal.codes.width()}},
               {"lowest_code", signal.codes.low},
               {"highest_code", signal.codes.high},
               {"meaning", meaning_value(signal.meaning)}};
}

}  // namespace

Design make_design(const Circuit& circuit, const std::vector<std::optional<LayerLogic>>& logic,
                   const TestVectors& vectors) {
  Design design;
  std::vector<std::string> sources;
  for (size_t i = 0; i < circuit.layers.size(); ++i) {
    const Layer& layer = circuit.layers[i];
    sources.push_back(layer.module + ".v");
    design.files.emplace_back(sources.back(), layer_verilog(circuit, layer, logic[i] ? &*logic[i] : nullptr));
  }
  sources.push_back(circuit.name + ".v");
  design.files.emplace_back(sources.back(), top_verilog(circuit));
  design.files.emplace_back(circuit.name + "_tb.v", testbench_verilog(circuit, vectors.inputs.size()));
  for (size_t i = 0; i < circuit.inputs.size(); ++i) {
    const CircuitPort& port = circuit.inputs[i];
    design.files.emplace_back(port.name + ".hex",
                              hex_lines(vectors.inputs, i, circuit.signal_of(port).codes));
  }
  for (size_t i = 0; i < circuit.outputs.size(); ++i) {
    const CircuitPort& port = circuit.outputs[i];
    design.files.emplace_back(port.name + ".hex",
                              hex_lines(vectors.outputs, i, circuit.signal_of(port).codes));
  }
  design.files.emplace_back("synthesize.ys", synthesis_script(circuit.name, sources));
  design.files.emplace_back("Makefile", makefile(circuit.name, sources));
  design.resources = resources_of(circuit, logic);
  return design;
}

Table design_value(const Circuit& circuit, const DesignResources& resources) {
  List inputs;
  for (const CircuitPort& port : circuit.inputs) inputs.push_back(port_value(circuit, port));
  List outputs;
  for (const CircuitPort& port : circuit.outputs) outputs.push_back(port_value(circuit, port));
  List layers;
  for (const LayerResources& layer : resources.layers) {
    layers.push_back(Table{{"node", layer.node},
                           {"module", layer.module},
                           {"kind", layer.kind},
                           {"inputs", layer.inputs},
                           {"outputs", layer.outputs},
                           {"luts", layer.luts},
                           {"luts_are_counted", layer.luts_are_counted},
                           {"lut_depth", int64_t{layer.depth}},
                           {"products", layer.products},
                           {"register_bits", layer.register_bits},
                           {"constant_outputs", layer.constant_outputs},
                           {"shared_outputs", layer.shared_outputs}});
  }
  return Table{{"top", circuit.name},
               {"latency", int64_t{circuit.latency}},
               {"layer_depth", int64_t{layer_depth(circuit)}},
               {"luts", resources.luts},
               {"luts_are_counted", resources.luts_are_counted},
               {"register_bits", resources.register_bits},
               {"inputs", std::move(inputs)},
               {"outputs", std::move(outputs)},
               {"layers", std::move(layers)}};
}

}  // namespace detent
