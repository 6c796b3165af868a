#include "detent/evaluation/batches.h"

#include <algorithm>
#include <numeric>

#include "detent/core/error.h"

namespace detent {

int64_t draw_order_seed(MersenneTwister& generator) {
  static_cast<void>(generator.draw_int64());  // the base seed of the workers, which detent does not have
  return generator.draw_int64();
}

std::vector<int64_t> shuffled_order(int64_t count, int64_t seed) {
  return MersenneTwister(static_cast<uint64_t>(seed)).permutation(count);
}

std::vector<int64_t> sequential_order(int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<BatchSamples> cut_into_batches(BatchSamples order, int64_t batch_size) {
  DETENT_CHECK(batch_size >= 1, "batch size {}", batch_size);
  const auto step = static_cast<size_t>(batch_size);
  std::vector<BatchSamples> batches;
  for (size_t begin = 0; begin < order.size(); begin += step) {
    batches.push_back(order.subspan(begin, std::min(step, order.size() - begin)));
  }
  return batches;
}

std::vector<BatchSamples> cut_into_batches(const Dataset& dataset, BatchSamples order, int64_t batch_size) {
  DETENT_CHECK(batch_size >= 1, "batch size {}", batch_size);
  std::vector<BatchSamples> batches;
  for (int64_t begin = 0, end = 0; begin < std::ssize(order); begin = end) {
    end = dataset.same_size_end(order, begin, std::min(begin + batch_size, std::ssize(order)));
    batches.push_back(order.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  }
  return batches;
}

std::vector<BatchSamples> worker_batches(const std::vector<BatchSamples>& batches,
                                         const ProcessGroup& group) {
  std::vector<BatchSamples> own;
  for (auto i = static_cast<size_t>(group.rank()); i < batches.size(); i += static_cast<size_t>(group.size()))
    own.push_back(batches[i]);
  return own;
}

BatchSamples worker_share(BatchSamples batch, const ProcessGroup& group) {
  const auto rank = static_cast<size_t>(group.rank());
  const auto workers = static_cast<size_t>(group.size());
  const size_t first = batch.size() * rank / workers;
  return batch.subspan(first, batch.size() * (rank + 1) / workers - first);
}

ReadAhead<Batch> load_batches(const Dataset& dataset, std::vector<BatchSamples> batches, int64_t epoch,
                              int64_t threads) {
  const auto count = static_cast<int64_t>(batches.size());
  const auto load = [&dataset, epoch, batches = std::move(batches)](int64_t index) {
    return dataset.batch(batches[static_cast<size_t>(index)], epoch);
  };
  return ReadAhead<Batch>(count, threads, load);
}

}  // namespace detent
