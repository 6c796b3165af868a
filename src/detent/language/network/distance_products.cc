#include "detent/language/network/distance_products.h"

#include <algorithm>
#include <cmath>

namespace detent {
namespace {

constexpr int64_t kFarthest = 1 << 16;

/// Logarithms are of float32: they decide between two rows.
int64_t row_of_distance(const DisentangledAttention& table, int64_t distance) {
  const int64_t last = 2 * table.span - 1;
  const int64_t half = table.span / 2;
  const int64_t size = std::abs(distance);
  if (table.most_distance == 0 || size <= half) return std::clamp<int64_t>(table.span + distance, 0, last);
  const float share =
      std::log(static_cast<float>(size) / static_cast<float>(half)) /
      std::log(static_cast<float>(static_cast<double>(table.most_distance - 1) / static_cast<double>(half)));
  const auto more = static_cast<int64_t>(std::ceil(share * static_cast<float>(half - 1)));
  const int64_t row = half + more;
  return std::clamp<int64_t>(table.span + (distance < 0 ? -row : row), 0, last);
}

}  // namespace

std::vector<int64_t> rows_by_distance(const LanguageConfig& config) {
  const DisentangledAttention& table = config.disentangled;
  int64_t farthest = config.positions > 0 ? config.context - 1 : 1;
  while (config.positions == 0 && farthest < kFarthest &&
         (row_of_distance(table, -farthest) > 0 || row_of_distance(table, farthest) < 2 * table.span - 1))
    ++farthest;
  std::vector<int64_t> rows;
  for (int64_t d = -farthest; d <= farthest; ++d) rows.push_back(row_of_distance(table, d));
  return rows;
}

void DistanceProducts::make_rows() {
  const int64_t count = 2 * config_.disentangled.span;
  rows_ = net_.weight_tensor("distance_rows", "distance_rows.weight", {count, config_.hidden});
  if (config_.disentangled.norm) rows_ = net_.norm("distance_norm", rows_, config_.hidden);
  const std::vector<int64_t> by_distance = rows_by_distance(config_);
  const int64_t farthest = std::ssize(by_distance) / 2;
  const NodeInput table =
      net_.constant_tensor("rows_by_distance", Tensor::from<int64_t>({std::ssize(by_distance)}, by_distance));
  const NodeInput queries = net_.call("unsqueeze", {positions_.queries(), list_input({1})});
  NodeInput distances = net_.call("sub", {queries, positions_.keys()});
  if (config_.positions == 0) {
    distances = net_.call("maximum", {distances, constant(-farthest)});
    distances = net_.call("minimum", {distances, constant(farthest)});
  }
  const NodeInput rows =
      net_.call("gather", {table, net_.call("add", {distances, constant(farthest)})}, {{"dim", 0}});
  if (config_.disentangled.of_queries)
    of_queries_ = net_.call("add", {net_.call("mul", {queries, constant(count)}), rows});
  if (config_.disentangled.of_keys)
    of_keys_ = net_.call("add", {net_.call("mul", {rows, positions_.total()}), positions_.keys()});
}

NodeInput DistanceProducts::projected(const std::string& target, const char* name) {
  const std::string layer = target + ".distance_" + name;
  const int64_t size = config_.heads * config_.head_size;
  NodeInput y;
  if (config_.disentangled.shares_layers) {
    std::string shared = target + "." + name;
    std::ranges::replace(shared, '.', '_');
    y = net_.named("linear", layer, {rows_}, net_.graph().node(shared).parameters);
  } else {
    y = net_.linear(layer, rows_, config_.hidden, size, true);
  }
  y = net_.call("dynamic_reshape", {y, list_input({0, config_.heads, config_.head_size})});
  return net_.call("permute", {y}, {{"dims", std::vector<int64_t>{1, 0, 2}}});
}

NodeInput DistanceProducts::picked(const NodeInput& products, const NodeInput& places) {
  const NodeInput flat = net_.call("dynamic_reshape", {products, list_input({0, 0, -1})});
  return net_.call("gather", {flat, places}, {{"dim", 2}});
}

NodeInput DistanceProducts::added(const std::string& target, NodeInput scores, const NodeInput& queries,
                                  const NodeInput& keys) {
  if (rows_.node.empty()) make_rows();
  if (config_.disentangled.of_queries) {
    const NodeInput rows = net_.call("transpose", {projected(target, "key")}, {{"dim0", 1}, {"dim1", 2}});
    const NodeInput products = net_.named("matmul", target + ".distance_scores_of_queries", {queries, rows});
    scores = net_.call("add", {scores, picked(products, of_queries_)});
  }
  if (config_.disentangled.of_keys) {
    const NodeInput rows =
        net_.call("mul", {projected(target, "query"), number_input(config_.score_scale(0))});
    const NodeInput products = net_.named("matmul", target + ".distance_scores_of_keys", {rows, keys});
    scores = net_.call("add", {scores, picked(products, of_keys_)});
  }
  return scores;
}

}  // namespace detent
