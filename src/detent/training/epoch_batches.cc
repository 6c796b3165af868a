#include "detent/training/epoch_batches.h"

#include <algorithm>

#include <ATen/ops/empty.h>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

/// The first batch norm that sees one value a channel of each sample; nullptr: none.
const Node* norm_of_single_values(const Graph& graph) {
  const auto shapes = infer_shapes(graph, /*batch=*/1);
  const auto norm = std::ranges::find_if(graph.nodes(), [&](const Node& node) {
    if (!is_batch_norm(node)) return false;
    const Shape& shape = shapes.find(node.name)->second.shape;  // [1, channels, ...]
    return element_count(shape) == shape[1];
  });
  return norm == graph.nodes().end() ? nullptr : &*norm;
}

/// Why a batch needs as many samples as it does; `least` is 1 where any will do.
struct BatchNeed {
  int64_t least = 1;
  std::string reason;
};

BatchNeed need_of(const Graph& graph, int workers) {
  const Node* single = norm_of_single_values(graph);
  const bool has_norm = std::ranges::any_of(graph.nodes(), is_batch_norm);
  const int64_t least = std::max<int64_t>(single != nullptr ? 2 : 1, has_norm ? workers : 1);
  if (single != nullptr && workers <= 2) {
    return {least,
            fmt::format("batch norm \"{}\" sees one value a channel of each sample, and one alone has no "
                        "variance: expected at least 2 samples",
                        single->name)};
  }
  return {least,
          fmt::format("batch norm takes the statistics of all workers together, which each need a sample: "
                      "expected at least {} samples for {} workers",
                      least, workers)};
}

}  // namespace

int64_t batches_of_epoch(const Graph& graph, int64_t samples, const TrainingOptions& options, int workers) {
  const int64_t whole = samples / options.batch_size;
  const int64_t rest = samples % options.batch_size;
  if (options.drop_last == DropLast::kAlways) {
    if (whole == 0)
      fail("drop_last: got always, but {} samples are less than a batch of {}", samples, options.batch_size);
  }
  const BatchNeed need = need_of(graph, workers);
  if (whole > 0 && options.batch_size < need.least)
    fail("batch_size: got {}, but {}", options.batch_size, need.reason);
  if (rest == 0 || options.drop_last == DropLast::kAlways) return whole;
  if (rest >= need.least) return whole + 1;
  if (whole == 0) fail("the training set has {} samples, but {}", samples, need.reason);
  if (options.drop_last == DropLast::kNever) {
    fail("drop_last: got never, but the last batch of an epoch has {} of {} samples, and {}", rest,
         options.batch_size, need.reason);
  }
  log_warning("the last batch of each epoch, of {} of {} samples, is left out: {} (drop_last)", rest,
              options.batch_size, need.reason);
  return whole;
}

int64_t draw_order_seed() {
  const auto draw = [] { return at::empty({}, at::kLong).random_().item<int64_t>(); };
  static_cast<void>(draw());  // the base seed of the workers, which detent does not have
  return draw();
}

}  // namespace detent
