#include "detent/training/loader.h"

#include <algorithm>
#include <numeric>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randperm.h>

#include "detent/core/error.h"

namespace detent {

std::vector<int64_t> shuffled_order(int64_t count) {
  const auto draw = [] { return at::empty({}, at::kLong).random_().item<int64_t>(); };
  static_cast<void>(draw());  // the base seed of the workers, which detent does not have
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(draw()));
  const at::Tensor order = at::randperm(count, generator, at::TensorOptions(at::kLong));
  const auto* data = order.data_ptr<int64_t>();
  return {data, data + count};
}

std::vector<int64_t> sequential_order(int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<int64_t> worker_share(const std::vector<int64_t>& order, int64_t batch_size,
                                  const ProcessGroup& group) {
  if (group.size() == 1) return order;
  std::vector<int64_t> share;
  const auto step = static_cast<size_t>(batch_size);
  const size_t stride = step * static_cast<size_t>(group.size());
  for (size_t begin = step * static_cast<size_t>(group.rank()); begin < order.size(); begin += stride) {
    const auto batch = std::span(order).subspan(begin, std::min(step, order.size() - begin));
    share.insert(share.end(), batch.begin(), batch.end());
  }
  return share;
}

void for_each_batch(const Dataset& dataset, const std::vector<int64_t>& order, int64_t batch_size,
                    const std::function<bool(const Batch&)>& body) {
  DETENT_CHECK(batch_size >= 1, "batch size {}", batch_size);
  const auto step = static_cast<size_t>(batch_size);
  for (size_t begin = 0; begin < order.size(); begin += step) {
    const size_t count = std::min(step, order.size() - begin);
    if (!body(dataset.batch(std::span(order).subspan(begin, count)))) return;
  }
}

}  // namespace detent
