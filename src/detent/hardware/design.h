#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/graph/graph.h"
#include "detent/hardware/circuit.h"
#include "detent/hardware/circuit_values.h"
#include "detent/hardware/logic.h"
#include "detent/hardware/verilog.h"

namespace detent {

struct CircuitOptions {
  std::string name = {};           // of the top module; empty: the graph's
  std::optional<int64_t> latency;  // clock cycles; none: a register after each layer
};

/// The hardware that computes what integer execution does of `graph`, which is quantized for it. Throws Error
/// with all that keeps it from being made, a line each; warnings are among the notes.
Circuit make_circuit(const Graph& graph, const CircuitOptions& options = {});

/// Resources of a layer of a design.
struct LayerResources {
  std::string node;
  std::string module;
  std::string kind;    // "sums", "requantization", "largest", "tables"
  int64_t inputs = 0;  // codes
  int64_t outputs = 0;
  int64_t luts = 0;               // 6-input tables
  bool luts_are_counted = false;  // else estimated, as a synthesis tool chooses the arithmetic
  int64_t products = 0;           // with constants, not 0
  int64_t register_bits = 0;
  int depth = 0;  // 6-input tables on the longest path, where counted
  int64_t constant_outputs = 0;
  int64_t shared_outputs = 0;
};

struct DesignResources {
  std::vector<LayerResources> layers;
  int64_t register_bits = 0;
  int64_t luts = 0;              // of all layers
  bool luts_are_counted = true;  // of all layers
  int deepest = 0;               // tables between registers, where counted
};

/// A circuit as files, all that a simulator and a synthesis tool need.
struct Design {
  std::vector<DesignFile> files;
  DesignResources resources;
};

/// `logic` is that of the circuit.
Design make_design(const Circuit& circuit, const std::vector<std::optional<LayerLogic>>& logic,
                   const TestVectors& vectors);

/// The circuit for programs: ports with their codes, layers, resources.
Table design_value(const Circuit& circuit, const DesignResources& resources);

/// About how many 6-input tables synthesis makes of a layer of arithmetic, without chains of carries. A
/// number of codes times constants, with D digits other than 0 of all constants (in the form with the
/// fewest), are D b bits of codes of b bits, of which a sum of S bits is made. A full adder takes two tables
/// and leaves two of three bits, one that ripples leaves one of two: 2 (D b - S) + S tables. A code below 0
/// counts a bit more, as its sign reaches further. Then
///
///     sum * multiplier + offset      2 (D - 1) S, D digits of the multiplier
///     clamp(v, low, high)            2 tables a bit of v, and of the code
///     n comparisons with constants   n (S / 5 rounded up), and 2 (n - 1) to count them
///     the larger of two codes        5 / 2 tables a bit; against a constant 1
///
/// docs/hardware.md holds it against yosys.
int64_t estimated_luts(const Layer& layer);

enum class Simulator { kVerilator, kIcarus };
constexpr std::array<const char*, 2> enum_names(Simulator) { return {"verilator", "icarus"}; }

struct SimulationResult {
  int64_t vectors = 0;
  int64_t differing_vectors = 0;
  int64_t differing_bits = 0;
};

struct SynthesisResult {
  int64_t luts = 0;  // 6-input tables
  int64_t register_bits = 0;
};

/// "" where the programs that it needs are installed, else the packages to install.
std::string why_no_simulator(Simulator simulator);
std::string why_no_synthesis();

/// Runs the testbench of the design `top` in the folder that make_design's files were written to. Throws
/// Error with what the simulator said where it fails, and what to install where it is missing.
SimulationResult simulate(const std::filesystem::path& folder, const std::string& top, Simulator simulator);

/// Runs yosys on the folder's synthesize.ys, which leaves synthesis.txt there. Throws Error likewise.
SynthesisResult synthesize(const std::filesystem::path& folder);

}  // namespace detent
