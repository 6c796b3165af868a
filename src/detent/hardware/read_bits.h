#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "detent/hardware/circuit.h"
#include "detent/hardware/logic.h"

namespace detent {

/// Visits bits of signals: bit i of a signal's vector of wires.
using BitVisitor = std::function<void(int32_t signal, int64_t bit)>;

/// All bits of what wires carry.
void visit_bits(const Circuit& circuit, const std::vector<Wire>& wires, const BitVisitor& visit);

/// The bits that a layer reads: all that come in, or those that its logic, if it has any, needs.
void visit_read_bits(const Circuit& circuit, const Layer& layer, const LayerLogic* logic,
                     const BitVisitor& visit);

/// Register bits after each signal: those that something reads at a later stage, one for each stage in
/// between. Bits that logic makes constant, or that are copies of one literal, take no register of their
/// own.
std::vector<int64_t> register_bits(const Circuit& circuit,
                                   const std::vector<std::optional<LayerLogic>>& logic);

}  // namespace detent
