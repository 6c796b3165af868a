#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

namespace detent {

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
