#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"
#include "detent/hardware/circuit.h"

namespace detent {

/// Codes of a signal's elements.
using SignalCodes = std::vector<int32_t>;

/// Evaluates the hardware on one sample, without registers: the codes of every signal. `inputs` are the codes
/// of the circuit's inputs.
std::vector<SignalCodes> circuit_values(const Circuit& circuit, const std::vector<SignalCodes>& inputs);

/// Codes that the wires carry.
SignalCodes wire_codes(const std::vector<Wire>& wires, const std::vector<SignalCodes>& signals);

/// Codes of a neuron's result from the codes of its layer's inputs.
int32_t neuron_code(const LookupBody& body, const LookupBody::Neuron& neuron, const SignalCodes& inputs);

/// Samples for a testbench: codes of each input and output of a circuit, [sample][port].
struct TestVectors {
  std::vector<std::vector<SignalCodes>> inputs;
  std::vector<std::vector<SignalCodes>> outputs;
};

/// Results of integer execution of `graph`, the source of `circuit`, on `inputs`: one tensor per input of
/// the network, [samples, ...]. Throws Error as it does.
TestVectors integer_vectors(const Graph& graph, const Circuit& circuit, const std::vector<Tensor>& inputs);

/// The same for samples whose inputs are drawn evenly from all codes.
TestVectors random_vectors(const Graph& graph, const Circuit& circuit, int64_t samples, uint64_t seed);

/// One line per sample, as $readmemh expects: the bits of all codes of a port, element 0 lowest.
std::string hex_lines(const std::vector<std::vector<SignalCodes>>& samples, size_t port,
                      const WireRange& codes);

}  // namespace detent
