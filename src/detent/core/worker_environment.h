#pragma once

#include <functional>
#include <optional>
#include <string>

namespace detent {

/// What the launcher told this process about the workers.
struct WorkerEnvironment {
  int rank = 0;
  int size = 1;
  std::string address;  // of the worker of rank 0
  int port = 0;
  /// What workers prove to each other that they know (DETENT_WORKER_SECRET); empty: nothing.
  std::string secret = {};
  /// Where the launcher itself, torchrun, keeps the table at address:port by which workers find each other:
  /// how often it has started them again.
  std::optional<std::string> launcher_restarts = std::nullopt;
  /// The launcher's name for this job, the same for all its workers; empty: it has none.
  std::string job = {};

  bool operator==(const WorkerEnvironment&) const = default;
};

/// From DETENT_WORKER_SECRET and RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun sets them, or
/// OMPI_COMM_WORLD_RANK and _SIZE of mpirun, which needs MASTER_ADDR only across machines: on one, it is
/// 127.0.0.1 and the port depends on the job. nullopt without a launcher, and of one worker. Throws Error,
/// naming the variable, on what is incomplete or no number. `get` is std::getenv, but for tests.
std::optional<WorkerEnvironment> worker_environment(const std::function<const char*(const char*)>& get);

}  // namespace detent
