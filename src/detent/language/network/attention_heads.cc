#include "detent/language/network/layers.h"

namespace detent {

Attention::Heads Attention::heads_of_hidden(const std::string& target, const NodeInput& x, const Turn& turn) {
  const NodeInput query = normed_heads_of(target + ".query", x, config_.heads);
  const NodeInput key = normed_heads_of(target + ".key", x, config_.kv_heads);
  const NodeInput value = heads_of(target + ".value", x, config_.kv_heads);
  const NodeInput turned_key = turned_heads(target + ".key", key, config_.kv_heads, turn);
  const NodeInput keys = cached(target + ".key_cache", turned_key, {0, 2, 3, 1});
  const NodeInput values = cached(target + ".value_cache", value, {0, 2, 1, 3});
  return {turned_heads(target + ".query", query, config_.heads, turn), keys, values};
}

NodeInput Attention::heads_of(const std::string& target, const NodeInput& x, int64_t heads) {
  return split_in_heads(
      limited(net_.linear(target, x, config_.hidden, heads * config_.head_size, config_.qkv_bias)), heads);
}

NodeInput Attention::limited(const NodeInput& x) {
  if (!config_.qkv_limit) return x;
  return net_.call("clamp", {x, number_input(-*config_.qkv_limit), number_input(*config_.qkv_limit)});
}

NodeInput Attention::split_in_heads(const NodeInput& x, int64_t heads) {
  return split_in_heads(x, heads, config_.head_size);
}

NodeInput Attention::split_in_heads(const NodeInput& x, int64_t heads, int64_t size) {
  return net_.call("dynamic_reshape", {x, list_input({0, 0, heads, size})});
}

NodeInput Attention::norm_of_heads(const std::string& target, const NodeInput& x, int64_t heads) {
  if (!config_.qk_norm_by_head) return net_.norm(target, x, config_.head_size);
  const bool is_centred = config_.norm == NormKind::kLayerNorm;
  const NodeInput y = net_.named(is_centred ? "layer_norm" : "rms_norm", target, {x},
                                 {{"weight", NetworkNodes::ones(config_.head_size)}},
                                 {{"normalized_shape", config_.head_size}, {"eps", config_.norm_eps}});
  const NodeInput weights =
      net_.weight_tensor(target + "_weight", target + ".weight", {heads, config_.head_size});
  return net_.call("mul", {y, weights});
}

NodeInput Attention::normed_heads_of(const std::string& target, const NodeInput& x, int64_t heads) {
  const int64_t size = heads * config_.head_size;
  if (config_.qk_norm_of_all) {
    const NodeInput y = net_.linear(target, x, config_.hidden, size, config_.qkv_bias);
    return split_in_heads(limited(net_.norm(target + "_norm", y, size)), heads);
  }
  const NodeInput y = heads_of(target, x, heads);
  return config_.qk_norm && !config_.qk_norm_turned ? norm_of_heads(target + "_norm", y, heads) : y;
}

NodeInput Attention::turned_heads(const std::string& target, const NodeInput& x, int64_t heads,
                                  const Turn& turn) {
  const NodeInput y = turned(net_, x, turn, config_.head_size);
  return config_.qk_norm_turned ? norm_of_heads(target + "_norm", y, heads) : y;
}

NodeInput Attention::latent_row(const std::string& target, const NodeInput& x, int64_t rank) {
  const NodeInput row = net_.linear(target, x, config_.hidden, rank, config_.latent.bias);
  return net_.norm(target + "_norm", row, rank, config_.latent.norm_eps);
}

Attention::Heads Attention::heads_of_latent(const std::string& target, const NodeInput& x, const Turn& turn) {
  const LatentAttention& latent = config_.latent;
  const int64_t heads = config_.heads;
  const int64_t plain = config_.head_size - latent.turning;
  const auto heads_from = [&](const char* name, const NodeInput& from, int64_t in, int64_t size) {
    return split_in_heads(net_.linear(target + name, from, in, heads * size, false), heads, size);
  };
  const NodeInput query =
      latent.query_rank == 0
          ? heads_from(".query", x, config_.hidden, config_.head_size)
          : heads_from(".query", latent_row(target + ".query_latent", x, latent.query_rank),
                       latent.query_rank, config_.head_size);
  const NodeInput row = latent_row(target + ".latent", x, latent.rank);
  NodeInput shared = net_.linear(target + ".turning_key", x, config_.hidden, latent.turning, latent.bias);
  shared = turned(net_, split_in_heads(shared, 1, latent.turning), turn, latent.turning);
  shared = net_.call("expand", {shared, constant(-1), constant(-1), constant(heads), constant(-1)});
  const NodeInput own = heads_from(".key", row, latent.rank, plain);
  const NodeInput value = heads_from(".value", row, latent.rank, config_.size_of_values());
  const NodeInput key = net_.call("cat", {shared, own}, {{"dim", -1}});
  const NodeInput keys = cached(target + ".key_cache", key, {0, 2, 3, 1});
  const NodeInput values = cached(target + ".value_cache", value, {0, 2, 1, 3});
  return {turned(net_, query, turn, config_.head_size), keys, values};
}

}  // namespace detent
