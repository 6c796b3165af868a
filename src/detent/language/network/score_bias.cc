#include "detent/language/network/score_bias.h"

#include <bit>
#include <cmath>

namespace detent {

std::vector<int64_t> ScoreBias::distance_rows() const {
  const auto most = static_cast<double>(config_.most_distance);
  const int64_t half = config_.distances / 2;
  const int64_t exact = half / 2;
  std::vector<int64_t> rows;
  for (int64_t d = -farthest(); d <= farthest(); ++d) {
    const int64_t size = std::abs(d);
    int64_t row = size;
    if (size >= exact) {
      const float share = std::log(static_cast<float>(size) / static_cast<float>(exact)) /
                          static_cast<float>(std::log(most / static_cast<double>(exact)));
      row = std::min(exact + static_cast<int64_t>(share * static_cast<float>(half - exact)), half - 1);
    }
    rows.push_back(d > 0 ? half + row : row);
  }
  return rows;
}

int64_t ScoreBias::farthest() const {
  return config_.positions > 0 ? config_.context - 1 : config_.most_distance;
}

NodeInput ScoreBias::distance_places() {
  const std::vector<int64_t> rows = distance_rows();
  const NodeInput table_of_rows =
      net_.constant_tensor("distance_rows", Tensor::from<int64_t>({std::ssize(rows)}, rows));
  NodeInput distances =
      net_.call("sub", {positions_.keys(), net_.call("unsqueeze", {positions_.queries(), list_input({1})})});
  if (config_.positions == 0) {
    distances = net_.call("maximum", {distances, constant(-farthest())});
    distances = net_.call("minimum", {distances, constant(farthest())});
  }
  const NodeInput places = net_.call("add", {distances, constant(farthest())});
  return net_.call("gather", {table_of_rows, places}, {{"dim", 0}});
}

NodeInput ScoreBias::of_distances(const std::string& target) {
  if (places_.node.empty()) places_ = distance_places();
  const NodeInput bias = net_.table(target, places_, config_.distances, config_.heads);
  return net_.call("permute", {bias}, {{"dims", std::vector<int64_t>{2, 0, 1}}});
}

std::vector<float> ScoreBias::slopes_of_heads() const {
  const auto heads = static_cast<size_t>(config_.heads);
  const size_t even = std::bit_floor(heads);
  std::vector<float> slopes;
  for (size_t i = 0; i < heads; ++i) {
    const double place = i < even ? static_cast<double>(i + 1) : static_cast<double>(i - even) + 0.5;
    slopes.push_back(
        static_cast<float>(std::exp2(-config_.distance_slopes * place / static_cast<double>(even))));
  }
  return slopes;
}

NodeInput ScoreBias::slopes_of_distances() {
  const std::vector<float> slopes = slopes_of_heads();
  const NodeInput of_heads =
      net_.constant_tensor("distance_slopes", Tensor::from<float>({config_.heads, 1, 1}, slopes));
  const NodeInput distances =
      net_.call("sub", {positions_.keys(), net_.call("unsqueeze", {positions_.queries(), list_input({1})})});
  return net_.call("mul", {of_heads, net_.call("cast", {distances}, {{"dtype", "float32"}})});
}

NodeInput ScoreBias::in_bfloat16(const NodeInput& x) {
  return net_.call("cast", {net_.call("cast", {x}, {{"dtype", "bfloat16"}})}, {{"dtype", "float32"}});
}

NodeInput ScoreBias::slopes_of_places() {
  const std::vector<float> slopes = slopes_of_heads();
  const NodeInput of_heads = in_bfloat16(
      net_.constant_tensor("distance_slopes", Tensor::from<float>({config_.heads, 1, 1}, slopes)));
  const NodeInput counts =
      net_.call("sub", {net_.call("cumsum", {positions_.mask(), constant(1)}), constant(1)});
  const NodeInput places =
      net_.call("unsqueeze", {net_.call("mul", {counts, positions_.mask()}), list_input({1, 2})});
  const NodeInput rounded = in_bfloat16(net_.call("cast", {places}, {{"dtype", "float32"}}));
  return net_.call(
      "mul", {in_bfloat16(net_.call("mul", {of_heads, rounded})), number_input(config_.score_scale(0))});
}

NodeInput ScoreBias::of_slopes() {
  return config_.slopes_of_places ? slopes_of_places() : slopes_of_distances();
}

}  // namespace detent
