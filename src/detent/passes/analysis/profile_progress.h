#pragma once

#include <filesystem>
#include <optional>
#include <span>

#include "detent/passes/analysis/profile_request.h"

namespace detent {

/// How far a worker has come in profiling, in a file, so that a run that was killed can go on.
class ProfileProgress {
 public:
  /// `identity` says which run it is: networks, data and shares that differ must not be mixed.
  ProfileProgress(std::filesystem::path path, std::string identity);

  /// Brings `probes` to where the file says, and returns how many micro-batches of this worker they have
  /// seen; 0 without a file. A file of another run is passed over: `warn` hears of it. Throws Error on one
  /// that is damaged.
  int64_t restore(std::span<Probe> probes, const std::function<void(const std::string&)>& warn) const;
  /// Replaces the file.
  void save(std::span<const Probe> probes, int64_t micro_batches) const;
  void remove() const;

 private:
  std::filesystem::path path_;
  std::string identity_;
};

}  // namespace detent
