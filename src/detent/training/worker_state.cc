#include "detent/training/worker_state.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>

#include "detent/core/error.h"

namespace detent {
namespace {

at::Tensor generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

/// Calls `visit(bytes)` for each part of the state, as memory to read or to write; `generator` is the
/// default generator's.
template <class Visitor>
void visit_parts(const WorkerState& state, uint64_t& run_count, at::Tensor& generator, const Visitor& visit) {
  visit(std::as_writable_bytes(state.metrics));
  visit(std::as_writable_bytes(std::span(&run_count, 1)));
  visit(std::as_writable_bytes(
      std::span(generator.data_ptr<uint8_t>(), static_cast<size_t>(generator.numel()))));
  for (ScaleObserver* observer : state.interpreter.observers())
    visit(std::as_writable_bytes(std::span(&observer->done, 1)));
  for (Node& node : state.graph.nodes()) {
    for (auto& [name, parameter] : node.parameters) {
      if (!parameter->trainable) visit(parameter->tensor.bytes());
    }
  }
}

}  // namespace

Tensor gather_worker_states(const WorkerState& own, ProcessGroup& group) {
  std::vector<std::byte> bytes;
  uint64_t run_count = own.interpreter.run_count();
  at::Tensor generator = generator_state();
  visit_parts(own, run_count, generator,
              [&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
  Tensor states(DType::kUInt8, {group.size(), static_cast<int64_t>(bytes.size())});
  auto target = states.bytes().begin();
  for (const std::vector<std::byte>& part : group.all_gather(bytes)) {
    DETENT_CHECK(part.size() == bytes.size(), "a worker's state has {} bytes, another's {}", part.size(),
                 bytes.size());
    target = std::ranges::copy(part, target).out;
  }
  return states;
}

void restore_worker_state(const WorkerState& own, const Tensor& states, const ProcessGroup& group,
                          const std::string& source) {
  uint64_t run_count = 0;
  at::Tensor generator = generator_state();
  size_t needed = 0;
  visit_parts(own, run_count, generator, [&](std::span<const std::byte> part) { needed += part.size(); });
  if (states.dim(0) != group.size() || states.dim(1) != static_cast<int64_t>(needed)) {
    fail("{}: got the state of workers {}, expected {}", source, shape_text(states.shape()),
         shape_text({group.size(), static_cast<int64_t>(needed)}));
  }
  std::span<const std::byte> left =
      states.bytes().subspan(static_cast<size_t>(group.rank()) * needed, needed);
  visit_parts(own, run_count, generator, [&](std::span<std::byte> part) {
    std::ranges::copy(left.first(part.size()), part.begin());
    left = left.subspan(part.size());
  });
  own.interpreter.set_run_count(run_count);
  at::Generator target = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(target.mutex());
  target.set_state(generator);
}

}  // namespace detent
