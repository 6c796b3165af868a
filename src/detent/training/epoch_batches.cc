#include "detent/training/epoch_batches.h"

#include <algorithm>

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

std::string need_of(const Node& norm, int workers) {
  return fmt::format(
      "batch norm \"{}\" sees one value a channel of each sample, and one alone has no variance: expected at "
      "least {} samples{}",
      norm.name, 2 * workers, workers > 1 ? fmt::format(" for {} workers", workers) : "");
}

}  // namespace

int64_t batches_of_epoch(const Graph& graph, int64_t samples, const TrainingOptions& options, int workers) {
  const int64_t whole = samples / options.batch_size;
  const int64_t rest = samples % options.batch_size;
  if (options.drop_last == DropLast::kAlways) {
    if (whole == 0)
      fail("drop_last: got always, but {} samples are less than a batch of {}", samples, options.batch_size);
  }
  const Node* norm = norm_of_single_values(graph);
  const auto is_too_small = [&](int64_t batch) { return norm != nullptr && batch < 2 * int64_t{workers}; };
  if (whole > 0 && is_too_small(options.batch_size))
    fail("batch_size: got {}, but {}", options.batch_size, need_of(*norm, workers));
  if (rest == 0 || options.drop_last == DropLast::kAlways) return whole;
  if (!is_too_small(rest)) return whole + 1;
  if (whole == 0) fail("the training set has {} samples, but {}", samples, need_of(*norm, workers));
  if (options.drop_last == DropLast::kNever) {
    fail("drop_last: got never, but the last batch of an epoch has {} of {} samples, and {}", rest,
         options.batch_size, need_of(*norm, workers));
  }
  spdlog::warn("the last batch of each epoch, of {} of {} samples, is left out: {} (drop_last)", rest,
               options.batch_size, need_of(*norm, workers));
  return whole;
}

}  // namespace detent
