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

/// XXH64 of inputs in their order, each with the checksum before it for a seed.
class InputChecksum {
 public:
  void add(std::span<const Tensor> inputs);
  std::string text() const;

 private:
  uint64_t value_ = 0;
};

/// How far a worker has come in profiling, in a file, so that a run that was killed can be resumed.
class ProfileProgress {
 public:
  /// `identity` says which run it is: networks, data and shares that differ must not be mixed.
  ProfileProgress(std::filesystem::path path, std::string identity);

  /// Brings `probes` to where the file says, and returns how many micro-batches of this worker they have
  /// seen; 0 without a file. A file of another run, or of other inputs, is passed over: `warn` hears of it.
  /// `checksum_of(n)` is that of the first n micro-batches as they are now. Throws Error on a file that is
  /// damaged.
  int64_t restore(std::span<Probe> probes, const std::function<InputChecksum(int64_t)>& checksum_of,
                  const std::function<void(const std::string&)>& warn) const;
  /// Replaces the file. `inputs` is of the micro-batches that are done.
  void save(std::span<const Probe> probes, int64_t micro_batches, const InputChecksum& inputs) const;
  void remove() const;

 private:
  std::filesystem::path path_;
  std::string identity_;
};

/// One look at the values of a probe's operand.
struct ProfileSweep {
  Probe* probe = nullptr;
  Probe* post_relu = nullptr;  // if any: sees what a ReLU makes of them
};

/// Which operands have to be looked at for all probes to know theirs. What several operands have in common
/// is looked at once: a node's result and what other nodes read of it, where it is not quantized between. And
/// the input of a ReLU and its output, where both are profiled and nothing is quantized between, share a
/// sweep. Where samples are recorded, values are seen after they are quantized, or the graph computes on
/// codes, each probe looks itself.
struct SweepPlan {
  std::vector<ProfileSweep> sweeps;
  /// Probes that see what the second one of the pair sees.
  std::vector<std::pair<Probe*, const Probe*>> copies;
};

/// Points into `probes`.
SweepPlan plan_sweeps(const Graph& graph, ObservedValues values, std::vector<Probe>& probes);

}  // namespace detent
