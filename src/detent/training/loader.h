#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "detent/core/process_group.h"
#include "detent/datasets/dataset.h"

namespace detent {

/// The order in which PyTorch's DataLoader(shuffle=True) visits `count` samples, drawn from libtorch's
/// default generator exactly as Python does: one int64 for the workers' base seed, then one that seeds a
/// generator of its own for the permutation. Starting a pass over the data therefore advances the default
/// generator by two draws.
std::vector<int64_t> shuffled_order(int64_t count);

/// 0, 1, ..., count - 1.
std::vector<int64_t> sequential_order(int64_t count);

/// Of the batches that `order` is cut into, those whose number is the worker's rank modulo the group's size,
/// one after another. Only the last of them may be smaller.
std::vector<int64_t> worker_share(const std::vector<int64_t>& order, int64_t batch_size,
                                  const ProcessGroup& group);

/// Calls `body(batch)` for consecutive groups of `batch_size` indices of `order`, the last one possibly
/// smaller, until it returns false.
void for_each_batch(const Dataset& dataset, const std::vector<int64_t>& order, int64_t batch_size,
                    const std::function<bool(const Batch&)>& body);

}  // namespace detent
