#pragma once

#include <cstdint>
#include <vector>

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

}  // namespace detent
