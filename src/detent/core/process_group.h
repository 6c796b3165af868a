#pragma once

#include <cstddef>
#include <span>
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

  /// What all workers gave, in the order of their ranks.
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

}  // namespace detent
