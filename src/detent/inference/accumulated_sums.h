#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "detent/core/tensor.h"
#include "detent/graph/accumulator.h"
#include "detent/graph/graph.h"
#include "detent/inference/node_form.h"

namespace detent {

/// Additions whose exact sum an integer accumulator does not hold or that exceed the largest float, and sums
/// with at least one of them.
struct AccumulatorOverflows {
  int64_t additions = 0;
  int64_t sums = 0;

  AccumulatorOverflows& operator+=(const AccumulatorOverflows& other) {
    additions += other.additions;
    sums += other.sums;
    return *this;
  }
};

/// Sums computed at once; the number of columns is a multiple of it.
inline constexpr int64_t kAddedColumns = 64;

/// sums[i] = 0, then + factors[k] * values[k * columns + i] for each k in order, each sum in the accumulator.
/// Products of integers are at most 2^30 in magnitude where the accumulator has fewer than 32 bits, and no
/// sum is beyond 32 bits where it has 32. The same on every processor.
AccumulatorOverflows add_products(const Accumulator& accumulator, std::span<const int32_t> factors,
                                  const int32_t* values, int64_t columns, int32_t* sums);
AccumulatorOverflows add_products(const Accumulator& accumulator, std::span<const float> factors,
                                  const float* values, int64_t columns, float* sums);

/// Final accumulators of a layer, and the bias.
struct AccumulatedSums {
  Tensor sums;  // int32, or float32 of a layer that computes in float
  AccumulatorOverflows overflows = {};
  int64_t additions = 0;
};

/// The sums of a form in accumulators, in the order that graph/accumulator.h says.
AccumulatedSums accumulated_sums(const SumForm& form, const Node& node, const Accumulator& accumulator,
                                 const Tensor& codes);
/// The same for a layer on values; `bias` may be empty. Takes a float accumulator.
AccumulatedSums accumulated_sums(const Tensor& weight, std::span<const float> bias, const Node& node,
                                 const Accumulator& accumulator, const Tensor& values);

/// No sum of some of a layer's products, in any order, is larger in magnitude: of each output channel that of
/// the inputs' range and the sums of the weights above and below 0, which A2Q (Colbert et al. 2023,
/// arXiv:2308.13504) and A2Q+ (2024, arXiv:2401.10432) bound so. The bias is not in it.
int64_t products_bound(const SumForm& form, const Node& node);
/// Bits of the narrowest integers that hold sums up to that bound.
int guaranteed_width(int64_t bound);

/// The accumulator whose sums may differ from exact ones; nullopt if the node has none, or its bound proves
/// that it holds every sum.
std::optional<Accumulator> inexact_accumulator(const SumForm& form, const Node& node);
/// "has the accumulator int16, where 19 bits would hold every sum"; "" where inexact_accumulator has none,
/// or the node has no accumulator.
std::string inexact_accumulator_text(const Graph& graph, const Node& node);

}  // namespace detent
