#include "detent/hardware/logic.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "detent/hardware/circuit.h"

namespace detent {
namespace {

void visit_bit(const Circuit& circuit, const Wire& wire, int64_t bit, const BitVisitor& visit) {
  if (wire.is_constant()) return;
  const int64_t width = circuit.signals[static_cast<size_t>(wire.signal)].codes.width();
  // Beyond its width a code is extended by its highest bit.
  visit(wire.signal, wire.element * width + std::min(bit, width - 1));
}

/// Stages that each bit of each signal is kept for, from the one at which its layer reads.
std::vector<std::vector<int64_t>> kept_stages(const Circuit& circuit,
                                              const std::vector<std::optional<LayerLogic>>& logic) {
  std::vector<int> first(circuit.signals.size());
  for (const Layer& layer : circuit.layers)
    first[static_cast<size_t>(layer.output)] = reading_stage(circuit, layer.inputs);
  std::vector<std::vector<int64_t>> kept;
  for (const Signal& signal : circuit.signals) kept.emplace_back(static_cast<size_t>(signal.bits()));
  int stage = 0;
  const auto keep = [&](int32_t signal, int64_t bit) {
    const auto number = static_cast<size_t>(signal);
    int64_t& stages = kept[number][static_cast<size_t>(bit)];
    stages = std::max<int64_t>(stages, stage - first[number]);
  };
  for (size_t i = 0; i < circuit.layers.size(); ++i) {
    stage = reading_stage(circuit, circuit.layers[i].inputs);
    visit_read_bits(circuit, circuit.layers[i], logic[i] ? &*logic[i] : nullptr, keep);
  }
  stage = circuit.latency;
  for (const CircuitPort& port : circuit.outputs) visit_bits(circuit, port.wires, keep);
  return kept;
}

/// The sum over the literals that a layer's outputs are of the longest time that one is kept.
int64_t kept_literals(const LayerLogic& logic, const std::vector<int64_t>& kept) {
  std::map<LutNetlist::Literal, int64_t> longest;
  for (size_t bit = 0; bit < kept.size(); ++bit) {
    const LutNetlist::Literal literal = logic.outputs[bit];
    if (LutNetlist::bit_of(literal) == LutNetlist::kZero) continue;
    int64_t& stages = longest[literal];
    stages = std::max(stages, kept[bit]);
  }
  int64_t sum = 0;
  for (const auto& [literal, stages] : longest) sum += stages;
  return sum;
}

}  // namespace

void visit_bits(const Circuit& circuit, const std::vector<Wire>& wires, const BitVisitor& visit) {
  for (const Wire& wire : wires) {
    if (wire.is_constant()) continue;
    const int width = circuit.signals[static_cast<size_t>(wire.signal)].codes.width();
    for (int bit = 0; bit < width; ++bit) visit_bit(circuit, wire, bit, visit);
  }
}

void visit_read_bits(const Circuit& circuit, const Layer& layer, const LayerLogic* logic,
                     const BitVisitor& visit) {
  if (logic == nullptr) return visit_bits(circuit, layer.inputs, visit);
  const auto width = static_cast<size_t>(layer.input_codes.width());
  const auto visit_input = [&](LutNetlist::Bit bit) {
    if (!logic->netlist.is_input(bit)) return;
    const size_t index = logic->netlist.input_index(bit);
    visit_bit(circuit, layer.inputs[index / width], static_cast<int64_t>(index % width), visit);
  };
  for (const LutNetlist::Lut& lut : logic->netlist.luts()) std::ranges::for_each(lut.inputs, visit_input);
  for (const LutNetlist::Literal output : logic->outputs) visit_input(LutNetlist::bit_of(output));
}

std::vector<int64_t> register_bits(const Circuit& circuit,
                                   const std::vector<std::optional<LayerLogic>>& logic) {
  const std::vector<std::vector<int64_t>> kept = kept_stages(circuit, logic);
  std::vector<int64_t> bits;
  for (const std::vector<int64_t>& stages : kept)
    bits.push_back(std::accumulate(stages.begin(), stages.end(), int64_t{0}));
  for (size_t i = 0; i < circuit.layers.size(); ++i) {
    const auto output = static_cast<size_t>(circuit.layers[i].output);
    if (logic[i]) bits[output] = kept_literals(*logic[i], kept[output]);
  }
  return bits;
}

}  // namespace detent
