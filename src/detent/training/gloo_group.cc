#include "detent/training/gloo_group.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "detent/core/error.h"

namespace detent {
namespace {

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

/// torchrun may listen at the workers' address and port itself: then no worker must.
bool launcher_listens() { return variable("TORCHELASTIC_USE_AGENT_STORE") == "True"; }

/// How often it has started the workers again, for the names of their keys.
std::string attempt_of_launcher() { return variable("TORCHELASTIC_RESTART_COUNT"); }

class GlooGroup final : public ProcessGroup {
 public:
  GlooGroup(const WorkerEnvironment& workers, std::chrono::milliseconds timeout) : workers_(workers) {
    attempt("cannot join the others", [&] {
      c10d::TCPStoreOptions store_options;
      store_options.port = static_cast<std::uint16_t>(workers.port);
      store_options.isServer = workers.rank == 0 && !launcher_listens();
      store_options.numWorkers = static_cast<std::size_t>(workers.size);
      store_options.timeout = timeout;
      store_ = c10::make_intrusive<c10d::TCPStore>(workers.address, store_options);
      auto options = c10d::ProcessGroupGloo::Options::create();
      options->timeout = timeout;
      const bool local = workers.address == "127.0.0.1" || workers.address == "localhost";
      options->devices.push_back(local ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                                       : c10d::ProcessGroupGloo::createDefaultDevice());
      // The launcher's own keys, and those of workers that it started before, are in its store too.
      const auto keys = c10::make_intrusive<c10d::PrefixStore>("detent/" + attempt_of_launcher(), store_);
      group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(keys, workers.rank, workers.size, options);
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
    std::vector<at::Tensor> tensors = {
        at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kFloat)};
    attempt("cannot add up gradients", [&] { group_->allreduce(tensors)->wait(); });
  }

 private:
  std::vector<at::Tensor> gather(at::Tensor& tensor) {
    std::vector<at::Tensor> inputs = {tensor};
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (int i = 0; i < size(); ++i) outputs[0].push_back(at::empty_like(tensor));
    attempt("cannot exchange results", [&] { group_->allgather(outputs, inputs)->wait(); });
    return std::move(outputs[0]);
  }

  /// c10d's exceptions carry a stack trace behind the first line.
  template <class Action>
  void attempt(const char* purpose, const Action& action) {
    try {
      action();
    } catch (const std::exception& error) {
      const std::string text = error.what();
      fail("worker {} of {} (first worker at {}:{}): {}: did another worker stop? ({})", workers_.rank,
           workers_.size, workers_.address, workers_.port, purpose, text.substr(0, text.find('\n')));
    }
  }

  WorkerEnvironment workers_;
  c10::intrusive_ptr<c10d::TCPStore> store_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

}  // namespace

std::unique_ptr<ProcessGroup> join_workers(const WorkerEnvironment& workers,
                                           std::chrono::milliseconds timeout) {
  return std::make_unique<GlooGroup>(workers, timeout);
}

}  // namespace detent
