#include "detent/hardware/logic.h"

#include <gtest/gtest.h>

#include <random>

#include "detent/hardware/circuit_values.h"
#include "detent/hardware/design.h"
#include "detent/hardware/lut_decomposition.h"
#include "detent/hardware/table_networks_for_test.h"

namespace detent {
namespace {

using Literal = LutNetlist::Literal;

/// The values of literals from those of the inputs.
std::vector<bool> values_of(const LutNetlist& netlist, const std::vector<Literal>& literals,
                            const std::vector<bool>& inputs) {
  std::vector<bool> bits(netlist.input_count() + 1);
  for (size_t i = 0; i < inputs.size(); ++i) bits[i + 1] = inputs[i];
  for (const LutNetlist::Lut& lut : netlist.luts()) {
    size_t entry = 0;
    for (size_t k = 0; k < lut.inputs.size(); ++k) entry |= size_t{bits[lut.inputs[k]]} << k;
    bits.resize(std::max<size_t>(bits.size(), lut.bit + 1));
    bits[lut.bit] = (lut.table >> entry & 1) != 0;
  }
  std::vector<bool> values;
  for (const Literal literal : literals)
    values.push_back(bits[LutNetlist::bit_of(literal)] != LutNetlist::is_inverted(literal));
  return values;
}

std::vector<bool> bits_of(uint64_t number, size_t count) {
  std::vector<bool> bits(count);
  for (size_t i = 0; i < count; ++i) bits[i] = (number >> i & 1) != 0;
  return bits;
}

uint64_t number_of(const std::vector<bool>& bits) {
  uint64_t number = 0;
  for (size_t i = 0; i < bits.size(); ++i) number |= uint64_t{bits[i]} << i;
  return number;
}

TEST(LutNetlist, LeavesOutWhatDoesNotMatter) {
  LutNetlist netlist(3);
  const Literal a = netlist.input(0);
  const Literal b = netlist.input(1);
  constexpr uint64_t kAnd = 0b1000;
  EXPECT_EQ(netlist.lut(kAnd, {a, LutNetlist::kTrue}), a);
  EXPECT_EQ(netlist.lut(kAnd, {a, a}), a);
  EXPECT_EQ(netlist.lut(kAnd, {a, LutNetlist::inverse(a)}), LutNetlist::kFalse);
  // That two inputs are one leaves a third without effect.
  EXPECT_EQ(netlist.lut(0b10000000, {a, LutNetlist::inverse(a), b}), LutNetlist::kFalse);
  EXPECT_TRUE(netlist.luts().empty());
  const Literal both = netlist.lut(kAnd, {a, b});
  EXPECT_EQ(netlist.lut(0b0111, {b, a}), LutNetlist::inverse(both));  // the same table
  EXPECT_EQ(netlist.luts().size(), 1U);
  // Three tables in a row fit into one.
  std::vector<Literal> outputs = {netlist.lut(kAnd, {both, netlist.input(2)})};
  EXPECT_EQ(netlist.packed(outputs).luts().size(), 1U);
}

TEST(LutDecomposition, KeepsEveryValueThatMatters) {
  std::mt19937_64 random(1);
  for (int inputs = 1; inputs <= 10; ++inputs) {
    LutNetlist netlist(static_cast<size_t>(inputs));
    LutDecomposition decomposition(netlist);
    std::vector<Literal> literals;
    for (size_t i = 0; i < static_cast<size_t>(inputs); ++i) literals.push_back(netlist.input(i) ^ (i % 2));
    for (const int kind : {0, 1, 2}) {
      TruthTable value(inputs);
      TruthTable care(inputs);
      for (size_t entry = 0; entry < value.entry_count(); ++entry) {
        const int ones = std::popcount(entry);
        value.set(entry, kind == 0 ? random() % 2 == 0 : ones >= inputs / 2);
        care.set(entry, kind != 2 || random() % 4 != 0);
      }
      const Literal result = decomposition.function(value, care, literals);
      for (size_t entry = 0; entry < value.entry_count(); ++entry) {
        if (!care.get(entry)) continue;
        std::vector<bool> given = bits_of(entry, literals.size());
        for (size_t i = 1; i < given.size(); i += 2) given[i] = !given[i];
        ASSERT_EQ(values_of(netlist, {result}, given)[0], value.get(entry))
            << inputs << " inputs, entry " << entry;
      }
    }
  }
}

/// Random tables of random earlier bits, before and after they are packed.
TEST(LutNetlist, PackingKeepsTheOutputs) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 50; ++trial) {
    LutNetlist netlist(8);
    std::vector<Literal> literals;
    for (size_t i = 0; i < 8; ++i) literals.push_back(netlist.input(i));
    for (int i = 0; i < 30; ++i) {
      std::vector<Literal> inputs;
      for (uint64_t k = 1 + random() % 4; k > 0; --k)
        inputs.push_back(literals[random() % literals.size()] ^ (random() % 2));
      literals.push_back(netlist.lut(random(), inputs));
    }
    const std::vector<Literal> outputs(literals.end() - 5, literals.end());
    std::vector<Literal> packed_outputs = outputs;
    const LutNetlist packed = netlist.packed(packed_outputs);
    EXPECT_LE(packed.luts().size(), netlist.luts().size());
    for (uint64_t entry = 0; entry < 256; ++entry)
      ASSERT_EQ(values_of(packed, packed_outputs, bits_of(entry, 8)),
                values_of(netlist, outputs, bits_of(entry, 8)));
  }
}

/// A sum of ten bits is at least 5: counted with few tables, where choosing among functions takes 21.
TEST(LutDecomposition, FindsWhatFewBitsSay) {
  LutNetlist netlist(10);
  LutDecomposition decomposition(netlist);
  TruthTable value(10);
  std::vector<Literal> literals;
  for (size_t i = 0; i < 10; ++i) literals.push_back(netlist.input(i));
  for (size_t entry = 0; entry < value.entry_count(); ++entry) value.set(entry, std::popcount(entry) >= 5);
  decomposition.function(value, ~TruthTable(10), literals);
  EXPECT_LE(netlist.luts().size(), 6U);
}

TEST(BitHeap, AddsBitsTimesWeights) {
  const std::vector<int64_t> weights = {1, -3, 7, 12, -1, 5, 6, 9, 1, 1, 1, 31};
  LutNetlist netlist(weights.size());
  BitHeap heap(netlist, 9);
  int64_t constant = -17;
  heap.add_constant(constant);
  for (size_t i = 0; i < weights.size(); ++i) heap.add(netlist.input(i), weights[i]);
  const std::vector<Literal> sum = heap.sum();
  for (uint64_t entry = 0; entry < uint64_t{1} << weights.size(); ++entry) {
    int64_t expected = constant;
    for (size_t i = 0; i < weights.size(); ++i) expected += (entry >> i & 1) != 0 ? weights[i] : 0;
    ASSERT_EQ(number_of(values_of(netlist, sum, bits_of(entry, weights.size()))),
              static_cast<uint64_t>(expected) & 511);
  }
}

/// Codes of layers of truth tables, from their 6-input tables.
SignalCodes codes_of(const LayerLogic& logic, const Layer& layer, const Signal& output,
                     const SignalCodes& inputs) {
  std::vector<bool> bits;
  for (const int32_t code : inputs) {
    for (int bit = 0; bit < layer.input_codes.width(); ++bit)
      bits.push_back((static_cast<uint32_t>(code) >> bit & 1) != 0);
  }
  const std::vector<bool> values = values_of(logic.netlist, logic.outputs, bits);
  SignalCodes codes;
  const auto width = static_cast<size_t>(output.codes.width());
  for (size_t i = 0; i < values.size(); i += width) {
    int32_t code = 0;
    for (size_t bit = 0; bit < width; ++bit) code |= int32_t{values[i + bit]} << bit;
    if (output.codes.is_signed() && values[i + width - 1]) code -= 1 << width;
    codes.push_back(code);
  }
  return codes;
}

/// Takes 100 random networks, with and without entries that no code reaches.
TEST(LayerLogic, IsWhatIntegerExecutionComputes) {
  const Graph graph = TableNetworksForTest(3).draw(100);
  const Circuit circuit = make_circuit(graph);
  const TestVectors vectors = random_vectors(graph, circuit, 40, 11);
  int64_t most = 0;
  for (const DontCares dont_cares : {DontCares::kNone, DontCares::kUnreachable, DontCares::kData}) {
    const auto logic = circuit_logic(circuit, dont_cares, vectors.inputs);
    int64_t luts = 0;
    for (size_t sample = 0; sample < vectors.inputs.size(); ++sample) {
      std::vector<SignalCodes> signals = circuit_values(circuit, vectors.inputs[sample]);
      for (size_t i = 0; i < logic.size(); ++i) {
        if (!logic[i]) continue;
        const Layer& layer = circuit.layers[i];
        const auto output = static_cast<size_t>(layer.output);
        signals[output] =
            codes_of(*logic[i], layer, circuit.signals[output], wire_codes(layer.inputs, signals));
        if (sample == 0) luts += std::ssize(logic[i]->netlist.luts());
      }
      for (size_t port = 0; port < circuit.outputs.size(); ++port)
        ASSERT_EQ(wire_codes(circuit.outputs[port].wires, signals), vectors.outputs[sample][port]);
    }
    if (dont_cares == DontCares::kNone) most = luts;
    EXPECT_LE(luts, most);
  }
}

}  // namespace
}  // namespace detent
