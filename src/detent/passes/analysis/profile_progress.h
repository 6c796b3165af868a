#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

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

}  // namespace detent
