#include "detent/workflows/network_data.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/engine/fast_executor.h"
#include "detent/graph/value_sizes.h"
#include "detent/passes/staged_runs/executor_in_parts.h"

namespace detent {
namespace {

/// Kernels round differently for batches of different sizes.
bool are_close(const Tensor& got, const Tensor& wanted) {
  constexpr double kTolerance = 0.01;
  const Tensor a = to_float32(got);
  const Tensor b = to_float32(wanted);
  double signal = 0;
  double noise = 0;
  for (size_t i = 0; i < a.values<float>().size(); ++i) {
    const auto x = static_cast<double>(a.values<float>()[i]);
    const auto y = static_cast<double>(b.values<float>()[i]);
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    signal += y * y;
    noise += (x - y) * (x - y);
  }
  return noise <= kTolerance * kTolerance * signal;
}

/// Whether an output of two samples is those of each, one after the other. What has another number of rows
/// (boxes that were found) tells nothing, unless it has no more than one sample gives.
bool is_of_both(const Tensor& both, const Tensor& one, const Tensor& other) {
  if (one.rank() == 0 || both.shape() == one.shape()) return both.shape() != one.shape();
  const int64_t rows = one.dim(0);
  if (both.rank() == 0 || one.shape() != other.shape() || both.dim(0) != 2 * rows) return true;
  if (both.numel() != 2 * one.numel()) return false;  // each sample of an input with each of another
  return are_close(both.rows(0, rows), one) && are_close(both.rows(rows, 2 * rows), other);
}

bool mixes(const Graph& graph, const Dataset& dataset) {
  const FastExecutor whole;
  const auto program = ExecutorInParts(whole).compile(graph);
  const auto outputs = [&](const std::vector<int64_t>& samples) {
    return program->run(dataset.batch(samples).inputs);
  };
  const std::vector<Tensor> one = outputs({0});
  const std::vector<Tensor> other = outputs({1});
  std::vector<Tensor> both;
  try {
    both = outputs({0, 1});
  } catch (const Error&) {
    return true;
  }
  for (size_t i = 0; i < one.size(); ++i)
    if (!is_of_both(both[i], one[i], other[i])) return true;
  return false;
}

/// Whether a sample has several rows of an input, such as images and texts that are compared.
bool has_rows(const Dataset& dataset) {
  const std::vector<int64_t> first = {0};
  return dataset.size() > 0 && std::ranges::any_of(dataset.batch(first).inputs, [](const Tensor& input) {
           return input.rank() > 0 && input.dim(0) > 1;
         });
}

bool mixes_samples(const Graph& graph, const Dataset& dataset) {
  const std::vector<int64_t> two = {0, 1};
  const bool can_tell = dataset.size() > 1 && dataset.same_size_end(two, 0, 2) == 2;
  return can_tell && mixes(graph, dataset);
}

}  // namespace

Graph without_batches_that_mix(const Graph& graph, const Dataset& dataset) {
  if (fixed_samples(graph)) return graph;
  if (has_rows(dataset)) {
    log_info("samples have several rows: the network runs one at a time");
  } else if (mixes_samples(graph, dataset)) {
    log_info("the network gives two samples together other outputs than each alone: it runs one at a time");
  } else {
    return graph;
  }
  std::map<std::string, TensorType> types;
  for (auto [name, type] : graph.input_types()) {
    for (Dimension& size : type.shape)
      if (size.symbol == kBatchName) size = Dimension("samples", 1);
    types.emplace(name, std::move(type));
  }
  return with_input_types(graph, types);
}

}  // namespace detent
