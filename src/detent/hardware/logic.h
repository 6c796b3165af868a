#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "detent/hardware/circuit.h"
#include "detent/hardware/circuit_values.h"
#include "detent/hardware/lut_netlist.h"

namespace detent {

/// A sum of bits times constants, modulo 2^width, as 6-input tables: columns of bits of equal weight, which
/// counters of up to six bits compress (L. Dadda 1965) until two rows are left to be added.
class BitHeap {
 public:
  using Literal = LutNetlist::Literal;

  BitHeap(LutNetlist& netlist, int width) : netlist_(netlist), columns_(static_cast<size_t>(width)) {}

  /// literal * weight, with the fewest digits -1, 0, 1 of the weight (A. D. Booth 1951; G. W. Reitwiesner
  /// 1960).
  void add(Literal literal, int64_t weight);
  void add_constant(int64_t value) { constant_ += static_cast<uint64_t>(value); }

  /// The bits of the sum, the lowest first.
  std::vector<Literal> sum();

 private:
  void compress();
  bool compress_column(size_t column, std::vector<std::vector<Literal>>& next);

  LutNetlist& netlist_;
  std::vector<std::vector<Literal>> columns_;
  uint64_t constant_ = 0;
};

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
