#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "detent/core/process_group.h"
#include "detent/workers/rendezvous.h"

namespace detent {

/// Workers that exchange bytes over TCP, through a table at the first of them. That suits settings,
/// statistics, counts and votes; training, which adds up gradients at each step, has a group of its own
/// (training/gloo_group.h). What workers send each other is not encrypted: the network between them must be
/// trusted.
class SocketGroup final : public ProcessGroup {
 public:
  /// Joins the others, and returns when all are there. Where the launcher itself listens at the port
  /// (torchrun), the first worker takes the next one. Neither this nor a call waits longer than `timeout`.
  /// Throws Error that names rank and address. Warns where the address is public and no secret protects it.
  SocketGroup(const WorkerEnvironment& workers, std::chrono::milliseconds timeout);
  /// The table ends with the first worker, so it waits until the others have read all of the last gather.
  ~SocketGroup() override;
  SocketGroup(const SocketGroup&) = delete;
  SocketGroup& operator=(const SocketGroup&) = delete;

  int rank() const override { return workers_.rank; }
  int size() const override { return workers_.size; }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> bytes) override;
  /// Adds in the order of ranks.
  void all_reduce_sum(std::span<float> values) override;

  std::shared_ptr<Rendezvous> table() const { return table_; }

 private:
  void offer(std::span<const std::byte> bytes);
  void wait_for_reader(int other, Rendezvous::Clock::time_point deadline);
  std::vector<std::byte> take(int other, Rendezvous::Clock::time_point deadline);
  template <class Action>
  void attempt(const char* purpose, const Action& action);

  WorkerEnvironment workers_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<Rendezvous> table_;
  uint64_t gather_ = 0;
  bool has_failed_ = false;
};

}  // namespace detent
