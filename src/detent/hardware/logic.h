#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "detent/hardware/circuit.h"
#include "detent/hardware/circuit_values.h"
#include "detent/hardware/lut_netlist.h"

namespace detent {

/// Which table entries may be anything, because no input reaches them.
enum class DontCares {
  kNone,
  kUnreachable,  // no combination of codes that come in leads there
  kData,         // nor does a sample of the data that were given
};
constexpr std::array<const char*, 3> enum_names(DontCares) { return {"none", "unreachable", "data"}; }

/// A layer of truth tables as 6-input tables. Bit i of the outputs is bit i of the module's vector y.
struct LayerLogic {
  LutNetlist netlist;
  std::vector<LutNetlist::Literal> outputs;
  int64_t constant_outputs = 0;  // elements of the result with a constant code
  int64_t shared_outputs = 0;    // elements equal to another one
  int depth = 0;                 // tables on the longest path
};

/// For each input of a layer, whether each code of its range can occur.
using ReachableCodes = std::vector<std::vector<bool>>;

/// A layer of truth tables. `samples`, if not null, are the codes of its inputs in some data: entries that
/// none of them reads may be anything. `results` gets the codes that the elements of the result can have.
LayerLogic layer_logic(const Layer& layer, const Signal& output, const ReachableCodes& reachable,
                       const std::vector<SignalCodes>* samples, ReachableCodes& results);

/// The logic of each layer, without what nothing reads; nullopt of those that are no truth tables. `samples`,
/// for DontCares::kData, are the codes of the circuit's inputs, [sample][input].
std::vector<std::optional<LayerLogic>> circuit_logic(const Circuit& circuit, DontCares dont_cares,
                                                     const std::vector<std::vector<SignalCodes>>& samples);

}  // namespace detent
