#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace detent {

/// The processes that work on one command together, the workers: each runs the same program on its share of
/// the data. Every worker must make the same calls in the same order. A worker that ends, or that the others
/// have waited for too long, makes these calls throw Error.
class ProcessGroup {
 public:
  ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  virtual ~ProcessGroup() = default;

  /// 0 <= rank < size.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The one that prints and writes files.
  bool is_first() const { return rank() == 0; }

  /// Bytes of all workers, in the order of their ranks.
  virtual std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> bytes) = 0;
  /// Replaces `values`, as many at each worker, by their sums over the workers: the same bits at each.
  virtual void all_reduce_sum(std::span<float> values) = 0;
};

/// A worker alone.
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

/// The workers, as the launcher described them to this process.
struct WorkerEnvironment {
  int rank = 0;
  int size = 1;
  std::string address;  // of the worker of rank 0
  int port = 0;
  /// Secret that workers prove to each other that they know (DETENT_WORKER_SECRET); empty: nothing.
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
