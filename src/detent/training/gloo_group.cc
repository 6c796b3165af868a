#include "detent/training/gloo_group.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <string>
#include <thread>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "detent/core/error.h"

namespace detent {
namespace {

using Clock = Rendezvous::Clock;

/// Store of the workers' addresses for Gloo.
class RendezvousStore final : public c10d::Store {
 public:
  RendezvousStore(std::shared_ptr<Rendezvous> table, std::chrono::milliseconds timeout)
      : c10d::Store(timeout), table_(std::move(table)) {}

  using c10d::Store::set;
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    table_->set(key, std::as_bytes(std::span(value)));
  }
  std::vector<uint8_t> get(const std::string& key) override {
    const std::vector<std::byte> value = table_->get(key, Clock::now() + timeout_);
    const auto* first = reinterpret_cast<const uint8_t*>(value.data());
    return {first, first + value.size()};
  }
  bool check(const std::vector<std::string>& keys) override {
    return std::ranges::all_of(keys, [&](const auto& key) { return table_->find(key).has_value(); });
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    const Clock::time_point deadline = Clock::now() + timeout;
    for (const std::string& key : keys) table_->get(key, deadline);
  }
  int64_t add(const std::string&, int64_t) override { return unused("add"); }
  bool deleteKey(const std::string&) override { return unused("deleteKey") != 0; }
  int64_t getNumKeys() override { return unused("getNumKeys"); }

 private:
  static int64_t unused(const char* name) { DETENT_CHECK(false, "Gloo asks its store for {}", name); }

  std::shared_ptr<Rendezvous> table_;
};

[[noreturn]] void fail_for_time(std::chrono::milliseconds timeout) {
  fail("it took longer than {:.3g} s", std::chrono::duration<double>(timeout).count());
}

/// Calls `body` in a thread, and waits no longer than the timeout: Gloo waits for one worker after another,
/// each so long. Where it comes later, it keeps what it holds, and the process is about to end.
template <class Body>
auto within(std::chrono::milliseconds timeout, Body body) {
  using Result = decltype(body());
  std::packaged_task<Result()> task(std::move(body));
  std::future<Result> result = task.get_future();
  std::thread(std::move(task)).detach();
  if (result.wait_for(timeout) != std::future_status::ready) fail_for_time(timeout);
  return result.get();
}

class GlooGroup final : public ProcessGroup {
 public:
  using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

  GlooGroup(const WorkerEnvironment& workers, std::chrono::milliseconds timeout,
            const std::shared_ptr<Rendezvous>& table)
      : workers_(workers), timeout_(timeout) {
    attempt("cannot join the others", [&] {
      const auto store = c10::make_intrusive<RendezvousStore>(table, timeout);
      group_ = within(timeout, [store, address = table->local_address(), timeout, rank = workers.rank,
                                size = workers.size] {
        auto options = c10d::ProcessGroupGloo::Options::create();
        options->timeout = timeout;
        options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
        return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
      });
    });
  }

  int rank() const override { return workers_.rank; }
  int size() const override { return workers_.size; }

  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> bytes) override {
    at::Tensor length = at::empty({1}, at::kLong);
    *length.data_ptr<int64_t>() = static_cast<int64_t>(bytes.size());
    std::vector<int64_t> lengths;
    for (const at::Tensor& other : gather(length)) lengths.push_back(*other.data_ptr<int64_t>());

    // Gloo cannot exchange nothing.
    at::Tensor padded = at::zeros({std::max<int64_t>(*std::ranges::max_element(lengths), 1)}, at::kByte);
    if (!bytes.empty()) std::memcpy(padded.data_ptr(), bytes.data(), bytes.size());
    std::vector<std::vector<std::byte>> result;
    for (const at::Tensor& other : gather(padded)) {
      const auto* first = static_cast<const std::byte*>(other.data_ptr());
      result.emplace_back(first, first + lengths[result.size()]);
    }
    return result;
  }

  void all_reduce_sum(std::span<float> values) override {
    if (values.empty()) return;
    // In memory that Gloo keeps: it may still write there when the time is up.
    std::vector<at::Tensor> tensors = {at::empty({static_cast<int64_t>(values.size())}, at::kFloat)};
    std::memcpy(tensors[0].data_ptr(), values.data(), values.size_bytes());
    attempt("cannot add up gradients, did another worker stop?", [&] { wait(group_->allreduce(tensors)); });
    std::memcpy(values.data(), tensors[0].data_ptr(), values.size_bytes());
  }

 private:
  std::vector<at::Tensor> gather(at::Tensor& tensor) {
    std::vector<at::Tensor> inputs = {tensor};
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (int i = 0; i < size(); ++i) outputs[0].push_back(at::empty_like(tensor));
    attempt("cannot exchange results, did another worker stop?",
            [&] { wait(group_->allgather(outputs, inputs)); });
    return std::move(outputs[0]);
  }

  /// Gloo's own timeout is one for each message of many.
  template <class Work>
  void wait(const Work& work) {
    if (!work->wait(timeout_)) fail_for_time(timeout_);
  }

  /// c10d's exceptions carry a stack trace after the first line. A group that failed is not destroyed: its
  /// threads may wait for the others, and the process is about to end.
  template <class Action>
  void attempt(const char* purpose, const Action& action) {
    try {
      action();
    } catch (const std::exception& error) {
      if (group_) static_cast<void>(Group(group_).release());
      const std::string text = error.what();
      fail("worker {} of {} (first worker at {}:{}): {}: {}", workers_.rank, workers_.size, workers_.address,
           workers_.port, purpose, text.substr(0, text.find('\n')));
    }
  }

  WorkerEnvironment workers_;
  std::chrono::milliseconds timeout_;
  Group group_;
};

}  // namespace

std::unique_ptr<ProcessGroup> join_with_gloo(const WorkerEnvironment& workers,
                                             std::chrono::milliseconds timeout,
                                             std::shared_ptr<Rendezvous> table) {
  return std::make_unique<GlooGroup>(workers, timeout, std::move(table));
}

}  // namespace detent
