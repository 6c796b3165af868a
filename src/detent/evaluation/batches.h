#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "detent/core/process_group.h"
#include "detent/core/random_numbers.h"
#include "detent/core/read_ahead.h"
#include "detent/datasets/dataset.h"

namespace detent {

/// Draws from the default generator as PyTorch's DataLoader(shuffle=True) does when a pass over the data
/// begins: one int64 for the workers' base seed, then the seed of the permutation's generator, which is
/// returned.
int64_t draw_order_seed(MersenneTwister& generator);

/// The permutation of `count` samples that a DataLoader with this seed visits.
std::vector<int64_t> shuffled_order(int64_t count, int64_t seed);

/// 0, 1, ..., count - 1.
std::vector<int64_t> sequential_order(int64_t count);

/// Samples of a batch, in order.
using BatchSamples = std::span<const int64_t>;

/// `order` cut into batches, of which only the last may be smaller.
std::vector<BatchSamples> cut_into_batches(BatchSamples order, int64_t batch_size);

/// The same, with samples of one size in each batch.
std::vector<BatchSamples> cut_into_batches(const Dataset& dataset, BatchSamples order, int64_t batch_size);

/// The batches whose number is the worker's rank modulo the group's size.
std::vector<BatchSamples> worker_batches(const std::vector<BatchSamples>& batches, const ProcessGroup& group);

/// The worker's contiguous part of the samples of one batch; may be empty.
BatchSamples worker_share(BatchSamples batch, const ProcessGroup& group);

/// The batches of a data set, loaded by `threads` threads ahead of `take`, or by `take` itself with none.
/// Data set and samples must outlive it. `epoch`: see Dataset::batch.
ReadAhead<Batch> load_batches(const Dataset& dataset, std::vector<BatchSamples> batches, int64_t epoch,
                              int64_t threads);

}  // namespace detent
