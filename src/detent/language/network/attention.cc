#include "detent/language/network/layers.h"

namespace detent {

Attention::Attention(NetworkNodes& net, const TokenPositions& positions)
    : net_(net), config_(net.config()), score_bias_(net, positions), distance_products_(net, positions) {
  full_visible_ = positions.visible(false);
  if (config_.window > 0) window_visible_ = positions.visible(true);
  if (config_.distances > 0 && !config_.distances_by_layer) bias_ = score_bias_.of_distances("distance_bias");
  if (config_.distance_slopes > 0) bias_ = score_bias_.of_slopes();
  if (config_.query_growth != 0) query_scale_ = growing_scale(positions);
  turn_ = turn_of(net, positions, config_.rotary, "frequencies");
  window_turn_ = config_.window_rotary == config_.rotary
                     ? turn_
                     : turn_of(net, positions, config_.window_rotary,
                               turn_.size == 0 ? "frequencies" : "window_frequencies");
}

NodeInput Attention::growing_scale(const TokenPositions& positions) {
  const NodeInput places = positions.float_queries();
  const NodeInput times = net_.call(
      "floor", {net_.call("div", {places, number_input(static_cast<double>(config_.query_growth_from))})});
  const NodeInput growth = net_.call("log", {net_.call("add", {times, number_input(1)})});
  return net_.call("add", {net_.call("mul", {growth, number_input(config_.query_growth)}), number_input(1)});
}

NodeInput Attention::layer(int64_t index, const NodeInput& x) {
  const std::string target = fmt::format("layers.{}.attention", index);
  const bool in_window = config_.layer_has_window(index);
  const Turn turn = !config_.layer_turns(index) ? Turn{} : in_window ? window_turn_ : turn_;
  const Heads heads =
      config_.latent.rank > 0 ? heads_of_latent(target, x, turn) : heads_of_hidden(target, x, turn);
  NodeInput scaled = net_.call("mul", {heads.query, number_input(config_.score_scale(index))});
  if (config_.query_growth != 0) scaled = net_.call("mul", {scaled, query_scale_});
  const int64_t size = config_.heads * config_.size_of_values();
  NodeInput y =
      attended(target, scaled, heads.keys, heads.values, in_window ? window_visible_ : full_visible_);
  if (config_.inner_norms) y = net_.norm(target + ".output_norm", y, size);
  return net_.linear(target + ".output", y, size, config_.hidden, config_.output_bias);
}

NodeInput Attention::attended(const std::string& target, const NodeInput& query, const NodeInput& keys,
                              const NodeInput& values, const NodeInput& seen) {
  NodeInput rows = net_.call("permute", {query}, {{"dims", std::vector<int64_t>{0, 2, 1, 3}}});
  rows = net_.call("dynamic_reshape", {rows, list_input({0, config_.kv_heads, -1, config_.head_size})});
  NodeInput scores = net_.named("matmul", target + ".scores", {rows, keys});
  if (config_.score_cap) scores = net_.capped(scores, *config_.score_cap);
  scores = net_.call("dynamic_reshape", {scores, list_input({0, config_.heads, -1, 0})});
  if (config_.disentangled.span > 0) scores = distance_products_.added(target, scores, rows, keys);
  if (config_.distances_by_layer) bias_ = score_bias_.of_distances(target + ".distance_bias");
  if (config_.distances > 0 || config_.distance_slopes > 0) scores = net_.call("add", {scores, bias_});
  scores = net_.call("where", {seen, scores, number_input(kMaskedScore)});
  if (config_.sinks) scores = with_sink(target + ".sink", scores);
  NodeInput shares = net_.softmax(target + ".shares", scores);
  if (config_.sinks) shares = net_.call("slice", {shares}, {{"dims", -1}, {"ends", -1}});
  shares = net_.call("dynamic_reshape", {shares, list_input({0, config_.kv_heads, -1, 0})});
  NodeInput result = net_.named("matmul", target + ".sums", {shares, values});
  result =
      net_.call("dynamic_reshape", {result, list_input({0, config_.heads, -1, config_.size_of_values()})});
  result = net_.call("permute", {result}, {{"dims", std::vector<int64_t>{0, 2, 1, 3}}});
  return net_.call("dynamic_reshape", {result, list_input({0, 0, config_.heads * config_.size_of_values()})});
}

NodeInput Attention::with_sink(const std::string& target, const NodeInput& scores) {
  const NodeInput sink = net_.weight_tensor(target, target + ".weight", {config_.heads});
  const NodeInput first = net_.call("slice", {scores}, {{"dims", -1}, {"ends", 1}});
  const NodeInput zeros = net_.call("mul", {first, number_input(0)});
  const NodeInput column = net_.call("add", {zeros, net_.call("unsqueeze", {sink, list_input({1, 2})})});
  return net_.call("cat", {scores, column}, {{"dim", -1}});
}

NodeInput Attention::cached(const std::string& target, const NodeInput& x,
                            const std::vector<int64_t>& order) {
  const NodeInput y = net_.call("permute", {x}, {{"dims", order}});
  return config_.gives_text() ? net_.named("identity", target, {y}) : y;
}

}  // namespace detent
