#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace detent {

/// One step of a program, as a run of FastProgram::profile() measures it.
struct StepProfile {
  std::string nodes;
  std::string kernel;
  std::string why = {};  // no faster kernel
  double products = 0;
  bool multiplies_floats = false;
  int64_t bytes = 0;   // read and written, weights included
  double seconds = 0;  // the least of the runs

  /// Whether the plain reference computes it, or a function for any element type, without a kernel of the
  /// engine.
  bool is_slow() const { return kernel == "reference" || kernel == "float"; }
};

/// A line that names the slowest steps without a kernel, where these take more than a tenth of a run of at
/// least a millisecond; else "".
std::string slow_steps_text(std::span<const StepProfile> steps);

}  // namespace detent
