#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace detent {

/// The workers of one command: processes that run the same program on shares of the data. All must make the
/// same calls in the same order. If one ends or times out, these calls throw Error.
class ProcessGroup {
 public:
  ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  virtual ~ProcessGroup() = default;

  /// 0 <= rank < size.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Whether this worker prints and writes files.
  bool is_first() const { return rank() == 0; }

  /// Gathers the bytes of all workers, by rank.
  virtual std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> bytes) = 0;
  /// Replaces `values`, equally many on each worker, by their sums: the same bits on each.
  virtual void all_reduce_sum(std::span<float> values) = 0;
};

/// A single worker.
class SingleProcess final : public ProcessGroup {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> bytes) override {
    return {{bytes.begin(), bytes.end()}};
  }
  void all_reduce_sum(std::span<float>) override {}
};

/// The group of a process that no launcher started.
inline ProcessGroup& single_process() {
  static SingleProcess alone;
  return alone;
}

/// The workers as described by the launcher.
struct WorkerEnvironment {
  int rank = 0;
  int size = 1;
  std::string address;  // of the worker of rank 0
  int port = 0;
  /// Shared secret of the workers (DETENT_WORKER_SECRET); empty: none.
  std::string secret = {};
  /// Rendezvous of torchrun at address:port, with the number of restarts.
  std::optional<std::string> launcher_restarts = std::nullopt;
  /// The launcher's job id, the same for all workers; empty: none.
  std::string job = {};

  bool operator==(const WorkerEnvironment&) const = default;
};

/// From DETENT_WORKER_SECRET and RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun sets them, or
/// OMPI_COMM_WORLD_RANK and _SIZE of mpirun, which needs MASTER_ADDR only across machines: on one, it is
/// 127.0.0.1 and the port depends on the job. nullopt without a launcher, and of one worker. Throws Error,
/// naming the variable, on what is incomplete or no number. `get` is std::getenv, but for tests.
std::optional<WorkerEnvironment> worker_environment(const std::function<const char*(const char*)>& get);

}  // namespace detent
