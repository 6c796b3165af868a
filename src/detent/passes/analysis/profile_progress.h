#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "detent/passes/analysis/profile_request.h"

namespace detent {

/// XXH64 of inputs in order, each seeded with the checksum before it.
class InputChecksum {
 public:
  void add(std::span<const Tensor> inputs);
  std::string text() const;

 private:
  uint64_t value_ = 0;
};

/// A worker's progress in profiling, in a file, so that a killed run can be resumed.
class ProfileProgress {
 public:
  /// `identity` identifies the run: networks, data and shares must match.
  ProfileProgress(std::filesystem::path path, std::string identity);

  /// Restores `probes` from the file, and returns how many micro-batches of this worker they have seen; 0
  /// without a file. A file of another run, or of other inputs, is ignored with a warning to `warn`.
  /// `checksum_of(n)` is that of the first n micro-batches now. Throws Error on a damaged file.
  int64_t restore(std::span<Probe> probes, const std::function<InputChecksum(int64_t)>& checksum_of,
                  const std::function<void(const std::string&)>& warn) const;
  /// Replaces the file. `inputs` is the checksum of finished micro-batches.
  void save(std::span<const Probe> probes, int64_t micro_batches, const InputChecksum& inputs) const;
  void remove() const;

 private:
  std::filesystem::path path_;
  std::string identity_;
};

/// One observation of a probe's operand.
struct ProfileSweep {
  Probe* probe = nullptr;
  Probe* post_relu = nullptr;  // if any: sees what a ReLU makes of them
};

/// Observations needed by all probes. Shared values are observed once: a node's result and its consumers'
/// inputs, unless quantized in between. The input of a ReLU and its output share a sweep if both are profiled
/// and nothing is quantized in between. Where samples are recorded, values are observed after quantization,
/// or the graph computes on codes, each probe observes for itself.
struct SweepPlan {
  std::vector<ProfileSweep> sweeps;
  /// Probes that share the observation of the second one.
  std::vector<std::pair<Probe*, const Probe*>> copies;
};

/// Points into `probes`.
SweepPlan plan_sweeps(const Graph& graph, ObservedValues values, std::vector<Probe>& probes);

}  // namespace detent
