#include "detent/language/language_graph.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "detent/core/error.h"
#include "detent/graph/builder.h"
#include "detent/graph/node_names.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

constexpr const char* kSequenceName = "sequence";
constexpr int64_t kUsualTokens = 16;
constexpr double kUnseen = -static_cast<double>(std::numeric_limits<float>::max());

NodeInput number(double value) { return NodeInput::of_constant(Value(value)); }
NodeInput list(const std::vector<int64_t>& values) { return NodeInput::of_constant(Value(values)); }

/// Cosines and sines [sequence, 1, 2 * size] by which elements of heads are multiplied; those of sines have
/// the sign of the part.
struct Turn {
  int64_t size = 0;  // elements that turn
  NodeInput cosine;
  NodeInput sine;
};

class LanguageGraphBuilder {
 public:
  LanguageGraphBuilder(const LanguageConfig& config, WeightSource& weights)
      : config_(config), weights_(weights), built_(config.family) {}

  Graph build() {
    add_inputs();
    add_positions();
    NodeInput x = embedded();
    full_visible_ = visible(false);
    if (config_.window > 0) window_visible_ = visible(true);
    if (config_.distances > 0 && !config_.distances_by_layer) distance_bias_ = distance_bias("distance_bias");
    if (config_.distance_slopes > 0)
      distance_bias_ = config_.slopes_of_places ? sloping_places() : sloping_bias();
    if (config_.query_growth != 0) query_scale_ = growing_scale();
    turn_ = turn_of(config_.rotary);
    window_turn_ = config_.window_rotary == config_.rotary ? turn_ : turn_of(config_.window_rotary);
    for (int64_t i = 0; i < config_.layers; ++i) x = layer(i, x);
    if (config_.final_norm) x = norm("norm", x, config_.hidden);
    if (is_projected() && config_.is_causal)
      x = linear("project_out", x, config_.hidden, config_.token_size(), false);
    if (config_.is_causal) x = logits(x);
    return finished(x);
  }

 private:
  // Nodes with a place in the order and a name of their own, since parameters are given.

  NodeInput add(Node node) {
    node.mase_type = find_operator(node.op).mase_type;
    NodeInput result = NodeInput::of(node.name);
    built_.add(std::move(node));
    return result;
  }

  NodeInput call(const std::string& op, std::vector<NodeInput> inputs, Table attributes = {}) {
    const int uses = uses_[op]++;
    return add({.name = uses == 0 ? op : fmt::format("{}_{}", op, uses),
                .op = op,
                .inputs = std::move(inputs),
                .attributes = std::move(attributes)});
  }

  static std::string node_name(std::string target) {
    std::ranges::replace(target, '.', '_');
    return target;
  }

  NodeInput named(const std::string& op, const std::string& target, std::vector<NodeInput> inputs,
                  std::vector<std::pair<std::string, ParameterRef>> parameters = {}, Table attributes = {}) {
    return add({.name = node_name(target),
                .target = target,
                .op = op,
                .inputs = std::move(inputs),
                .attributes = std::move(attributes),
                .parameters = std::move(parameters)});
  }

  ParameterRef weight(const std::string& name, const Shape& shape) {
    return ParameterRef(Parameter{weights_.tensor(name, shape), true});
  }

  NodeInput constant_tensor(const std::string& target, Tensor tensor) {
    return named("get_attr", target, {}, {{"value", ParameterRef(Parameter{std::move(tensor), false})}});
  }

  NodeInput linear(const std::string& target, NodeInput x, int64_t in, int64_t out, bool bias) {
    std::vector<std::pair<std::string, ParameterRef>> parameters = {
        {"weight", weight(target + ".weight", {out, in})}};
    if (bias) parameters.emplace_back("bias", weight(target + ".bias", {out}));
    return named("linear", target, {std::move(x)}, std::move(parameters));
  }

  bool is_projected() const { return config_.projects_embedding || config_.token_size() != config_.hidden; }

  NodeInput table(const std::string& target, NodeInput indices, int64_t rows, int64_t size) {
    return named("embedding", target, {std::move(indices)},
                 {{"weight", weight(target + ".weight", {rows, size})}});
  }

  NodeInput norm(const std::string& target, const NodeInput& x, int64_t size) {
    return norm(target, x, size, config_.norm_eps);
  }

  NodeInput norm(const std::string& target, NodeInput x, int64_t size, double eps) {
    const bool is_centred = config_.norm == NormKind::kLayerNorm;
    std::vector<std::pair<std::string, ParameterRef>> parameters = {
        {"weight", config_.norm_weight ? weight(target + ".weight", {size}) : ones(size)}};
    if (is_centred && config_.norm_bias) parameters.emplace_back("bias", weight(target + ".bias", {size}));
    return named(is_centred ? "layer_norm" : "rms_norm", target, {std::move(x)}, std::move(parameters),
                 {{"normalized_shape", size}, {"eps", eps}});
  }

  static ParameterRef ones(int64_t size) {
    const std::vector<float> values(static_cast<size_t>(size), 1);
    return ParameterRef(Parameter{Tensor::from<float>({size}, values), false});
  }

  NodeInput size_of(const NodeInput& x, int64_t dim) {
    return call("shape_of", {x}, {{"start", dim}, {"end", dim + 1}});
  }

  // Inputs and positions.

  void add_inputs() {
    const auto usual = std::min<int64_t>(config_.context, kUsualTokens);
    const Dimension batch(kBatchName);
    const auto type = [&](const char* name) {
      return TensorType{DType::kInt64, {batch, Dimension(name, usual)}};
    };
    built_.add_input(kTokensInput, type(kSequenceName));
    tokens_ = NodeInput::of(kTokensInput);
    built_.add_input(kMaskInput, type(kSequenceName));
    mask_ = NodeInput::of(kMaskInput);
    if (config_.is_causal) constant_tensor(kContextNode, Tensor::from<int64_t>({1}, {config_.context}));
    if (config_.token_types == 0) return;
    built_.add_input(kTypesInput, type(kSequenceName));
    types_ = NodeInput::of(kTypesInput);
  }

  /// Places of queries and of keys in the whole sequence.
  void add_positions() {
    const NodeInput total = size_of(mask_, 1);
    past_ = call("sub", {total, size_of(tokens_, 1)});
    const NodeInput end = call("squeeze", {total, list({0})});
    total_ = end;
    queries_ = call("range", {call("squeeze", {past_, list({0})}), end, constant(1)});
    keys_ = call("range", {constant(0), end, constant(1)});
  }

  /// Rows of the table of learned positions, [N, sequence] or [sequence].
  NodeInput position_rows() {
    const NodeInput offset = constant(config_.position_offset);
    if (config_.position_count == PositionCount::kAll) {
      return config_.position_offset == 0 ? queries_ : call("add", {queries_, offset});
    }
    if (config_.position_count == PositionCount::kUnpadded) {
      const NodeInput is_pad = call("eq", {tokens_, constant(*config_.pad)});
      const NodeInput counts = call("cast", {call("logical_not", {is_pad})}, {{"dtype", "int64"}});
      const NodeInput places = call("mul", {call("cumsum", {counts, constant(1)}), counts});
      return call("add", {places, constant(config_.position_offset - 1)});
    }
    const NodeInput places = call("mul", {call("cumsum", {mask_, constant(1)}), mask_});
    const NodeInput of_queries = call("gather", {places, queries_}, {{"dim", 1}});
    return call("add", {of_queries, constant(config_.position_offset - 1)});
  }

  /// Where there is a norm, tokens of a size of their own are projected after it, with a bias (ELECTRA).
  NodeInput embedded() {
    const bool is_early = is_projected() && !config_.embedding_norm;
    const int64_t size = config_.embedding_norm ? config_.token_size() : config_.hidden;
    NodeInput x = table("embed_tokens", tokens_, config_.vocabulary, config_.token_size());
    if (is_early) x = linear("project_in", x, config_.token_size(), size, false);
    if (config_.embedding_scale != 1) x = call("mul", {x, number(config_.embedding_scale)});
    if (config_.token_types > 0)
      x = call("add", {x, table("embed_types", types_, config_.token_types, size)});
    if (config_.positions > 0)
      x = call("add", {x, table("embed_positions", position_rows(), config_.positions, size)});
    if (!config_.embedding_norm) return x;
    x = norm("embed_norm", x, size);
    return is_projected() ? linear("project_in", x, size, config_.hidden, true) : x;
  }

  /// The rows of the table of distances, of keys before a query first, by the steps of transformers.
  std::vector<int64_t> distance_rows() const {
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

  /// The last distance of that table. Where nothing else bounds the sequence, those beyond count as the last.
  int64_t farthest() const { return has_positions() ? config_.context - 1 : config_.most_distance; }
  bool has_positions() const { return config_.positions > 0; }

  /// Row of the table of distances for each query and key.
  NodeInput distance_places() {
    const std::vector<int64_t> rows = distance_rows();
    const NodeInput table_of_rows =
        constant_tensor("distance_rows", Tensor::from<int64_t>({std::ssize(rows)}, rows));
    NodeInput distances = call("sub", {keys_, call("unsqueeze", {queries_, list({1})})});
    if (!has_positions()) {
      distances = call("maximum", {distances, constant(-farthest())});
      distances = call("minimum", {distances, constant(farthest())});
    }
    const NodeInput places = call("add", {distances, constant(farthest())});
    return call("gather", {table_of_rows, places}, {{"dim", 0}});
  }

  /// Addend of the scores, [heads, sequence, sequence].
  NodeInput distance_bias(const std::string& target) {
    if (distance_places_.node.empty()) distance_places_ = distance_places();
    const NodeInput bias = table(target, distance_places_, config_.distances, config_.heads);
    return call("permute", {bias}, {{"dims", std::vector<int64_t>{2, 0, 1}}});
  }

  /// 2^(-slopes i / heads), [heads, 1, 1].
  std::vector<float> slopes_of_heads() const {
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

  /// Addend of the scores, the same.
  NodeInput sloping_bias() {
    const std::vector<float> slopes = slopes_of_heads();
    const NodeInput of_heads =
        constant_tensor("distance_slopes", Tensor::from<float>({config_.heads, 1, 1}, slopes));
    const NodeInput distances = call("sub", {keys_, call("unsqueeze", {queries_, list({1})})});
    return call("mul", {of_heads, call("cast", {distances}, {{"dtype", "float32"}})});
  }

  NodeInput in_bfloat16(const NodeInput& x) {
    return call("cast", {call("cast", {x}, {{"dtype", "bfloat16"}})}, {{"dtype", "float32"}});
  }

  /// Addend of the scores, [N, heads, 1, total].
  NodeInput sloping_places() {
    const std::vector<float> slopes = slopes_of_heads();
    const NodeInput of_heads =
        in_bfloat16(constant_tensor("distance_slopes", Tensor::from<float>({config_.heads, 1, 1}, slopes)));
    const NodeInput counts = call("sub", {call("cumsum", {mask_, constant(1)}), constant(1)});
    const NodeInput places = call("unsqueeze", {call("mul", {counts, mask_}), list({1, 2})});
    const NodeInput rounded = in_bfloat16(call("cast", {places}, {{"dtype", "float32"}}));
    return call("mul", {in_bfloat16(call("mul", {of_heads, rounded})), number(score_scale(0))});
  }

  /// Factor of queries, [sequence, 1, 1].
  NodeInput growing_scale() {
    const NodeInput places =
        call("cast", {call("unsqueeze", {queries_, list({1, 2})})}, {{"dtype", "float32"}});
    const NodeInput times =
        call("floor", {call("div", {places, number(static_cast<double>(config_.query_growth_from))})});
    const NodeInput growth = call("log", {call("add", {times, number(1)})});
    return call("add", {call("mul", {growth, number(config_.query_growth)}), number(1)});
  }

  /// Whether each query may see each key, [N, 1, 1 or sequence, total].
  NodeInput visible(bool in_window) {
    NodeInput seen = call("unsqueeze", {call("cast", {mask_}, {{"dtype", "bool"}}), list({1, 2})});
    const NodeInput rows =
        config_.is_causal || in_window ? call("unsqueeze", {queries_, list({1})}) : NodeInput();
    if (config_.is_causal) seen = call("logical_and", {seen, call("le", {keys_, rows})});
    if (!in_window) return seen;
    const NodeInput first = call("sub", {rows, constant(config_.window)});
    seen = call("logical_and", {seen, call(config_.is_causal ? "gt" : "ge", {keys_, first})});
    if (config_.is_causal) return seen;
    const NodeInput last = call("add", {rows, constant(config_.window)});
    return call("logical_and", {seen, call("le", {keys_, last})});
  }

  /// The frequencies, twice, first with the other sign.
  NodeInput signed_frequencies(const std::vector<float>& frequencies, const std::string& name) {
    std::vector<float> both;
    for (const float f : frequencies) both.push_back(-f);
    both.insert(both.end(), frequencies.begin(), frequencies.end());
    const auto size = std::ssize(both);
    return constant_tensor(name, Tensor::from<float>({size}, both));
  }

  /// Frequencies that shrink with the length, by the steps of transformers: a last bit of a frequency is a
  /// thousand of an angle.
  NodeInput shrunk_frequencies(const Rotary& rotary, const std::string& name) {
    const auto from = static_cast<double>(rotary.grows_from);
    const size_t size = rotary.frequencies.size();
    std::vector<float> signs(size, -1);
    signs.resize(2 * size, 1);
    std::vector<float> exponents;
    for (size_t i = 0; i < 2 * size; ++i)
      exponents.push_back(static_cast<float>(2 * (i % size)) / static_cast<float>(2 * size));
    const NodeInput length = call("maximum", {call("cast", {total_}, {{"dtype", "float32"}}), number(from)});
    const NodeInput share = call("div", {call("mul", {length, number(rotary.growth)}), number(from)});
    const NodeInput growth = call("sub", {share, number(rotary.growth - 1)});
    const double power = static_cast<double>(2 * size) / static_cast<double>(2 * size - 2);
    const NodeInput base = call("mul", {call("pow", {growth, number(power)}), number(rotary.theta)});
    const auto vector = [&](const char* what, const std::vector<float>& values) {
      return constant_tensor(name + what, Tensor::from<float>({std::ssize(values)}, values));
    };
    return call("div", {vector(".signs", signs), call("pow", {base, vector(".exponents", exponents)})});
  }

  Turn turn_of(const Rotary& rotary) {
    if (rotary.frequencies.empty()) return {};
    const int uses = uses_["frequencies"]++;
    const std::string name = uses == 0 ? "frequencies" : "window_frequencies";
    NodeInput frequencies = signed_frequencies(rotary.frequencies, name);
    if (!rotary.long_frequencies.empty()) {
      const NodeInput is_long = call("gt", {total_, constant(rotary.long_from)});
      frequencies =
          call("where", {is_long, signed_frequencies(rotary.long_frequencies, name + ".long"), frequencies});
    }
    if (rotary.growth > 0) {
      const NodeInput is_long = call("gt", {total_, constant(rotary.grows_from)});
      frequencies = call("where", {is_long, shrunk_frequencies(rotary, name), frequencies});
    }
    const NodeInput places =
        call("cast", {call("unsqueeze", {queries_, list({1, 2})})}, {{"dtype", "float32"}});
    const NodeInput angles = call("mul", {places, frequencies});
    Turn turn{2 * std::ssize(rotary.frequencies), call("cos", {angles}), call("sin", {angles})};
    if (rotary.factor != 1) {
      turn.cosine = call("mul", {turn.cosine, number(rotary.factor)});
      turn.sine = call("mul", {turn.sine, number(rotary.factor)});
    }
    return turn;
  }

  // Layers. Heads are [N, sequence, heads, head_size] up to where they are attended to.

  NodeInput heads_of(const std::string& target, const NodeInput& x, int64_t heads) {
    return split_in_heads(
        limited(linear(target, x, config_.hidden, heads * config_.head_size, config_.qkv_bias)), heads);
  }

  NodeInput limited(const NodeInput& x) {
    if (!config_.qkv_limit) return x;
    return call("clamp", {x, number(-*config_.qkv_limit), number(*config_.qkv_limit)});
  }

  NodeInput split_in_heads(const NodeInput& x, int64_t heads) {
    return split_in_heads(x, heads, config_.head_size);
  }

  NodeInput split_in_heads(const NodeInput& x, int64_t heads, int64_t size) {
    return call("dynamic_reshape", {x, list({0, 0, heads, size})});
  }

  NodeInput norm_of_heads(const std::string& target, const NodeInput& x, int64_t heads) {
    if (!config_.qk_norm_by_head) return norm(target, x, config_.head_size);
    const bool is_centred = config_.norm == NormKind::kLayerNorm;
    const NodeInput y =
        named(is_centred ? "layer_norm" : "rms_norm", target, {x}, {{"weight", ones(config_.head_size)}},
              {{"normalized_shape", config_.head_size}, {"eps", config_.norm_eps}});
    const NodeInput weights = named("get_attr", target + "_weight", {},
                                    {{"value", weight(target + ".weight", {heads, config_.head_size})}});
    return call("mul", {y, weights});
  }

  /// Queries or keys.
  NodeInput normed_heads_of(const std::string& target, const NodeInput& x, int64_t heads) {
    const int64_t size = heads * config_.head_size;
    if (config_.qk_norm_of_all) {
      const NodeInput y = linear(target, x, config_.hidden, size, config_.qkv_bias);
      return split_in_heads(limited(norm(target + "_norm", y, size)), heads);
    }
    const NodeInput y = heads_of(target, x, heads);
    return config_.qk_norm && !config_.qk_norm_turned ? norm_of_heads(target + "_norm", y, heads) : y;
  }

  /// The first of two parts.
  NodeInput split_at(const NodeInput& x, int64_t first, int64_t size) {
    return call("split", {x}, {{"sizes", std::vector<int64_t>{first, size - first}}, {"dim", -1}});
  }

  /// x cos + (-x2, x1) sin of the elements that turn, of heads of that size.
  NodeInput turned(const NodeInput& x, const Turn& turn, int64_t size) {
    if (turn.size == 0) return x;
    NodeInput part = x;
    NodeInput rest;
    if (turn.size < size) {
      part = split_at(x, turn.size, size);
      rest = NodeInput::of(part.node, 1);
    }
    const NodeInput first = split_at(part, turn.size / 2, turn.size);
    const NodeInput exchanged = call("cat", {NodeInput::of(first.node, 1), first}, {{"dim", -1}});
    const NodeInput sum =
        call("add", {call("mul", {part, turn.cosine}), call("mul", {exchanged, turn.sine})});
    if (turn.size == size) return sum;
    return call("cat", {sum, rest}, {{"dim", -1}});
  }

  /// Queries or keys.
  NodeInput turned_heads(const std::string& target, const NodeInput& x, int64_t heads, const Turn& turn) {
    const NodeInput y = turned(x, turn, config_.head_size);
    return config_.qk_norm_turned ? norm_of_heads(target + "_norm", y, heads) : y;
  }

  /// Keys as [N, kv_heads, head_size, total], values as [N, kv_heads, total, head_size].
  NodeInput cached(const std::string& target, const NodeInput& x, const std::vector<int64_t>& order) {
    const NodeInput y = call("permute", {x}, {{"dims", order}});
    return config_.is_causal ? named("identity", target, {y}) : y;
  }

  /// Heads that share keys lie one after another, so that they are rows of one product.
  NodeInput attended(const std::string& target, const NodeInput& query, const NodeInput& keys,
                     const NodeInput& values, const NodeInput& seen) {
    NodeInput rows = call("permute", {query}, {{"dims", std::vector<int64_t>{0, 2, 1, 3}}});
    rows = call("dynamic_reshape", {rows, list({0, config_.kv_heads, -1, config_.head_size})});
    NodeInput scores = named("matmul", target + ".scores", {rows, keys});
    if (config_.score_cap) scores = capped(scores, *config_.score_cap);
    scores = call("dynamic_reshape", {scores, list({0, config_.heads, -1, 0})});
    if (config_.distances_by_layer) distance_bias_ = distance_bias(target + ".distance_bias");
    if (config_.distances > 0 || config_.distance_slopes > 0) scores = call("add", {scores, distance_bias_});
    scores = call("where", {seen, scores, number(kUnseen)});
    if (config_.sinks) scores = with_sink(target + ".sink", scores);
    NodeInput shares = named("softmax", target + ".shares", {scores}, {}, {{"dim", -1}});
    if (config_.sinks) shares = call("slice", {shares}, {{"dims", -1}, {"ends", -1}});
    shares = call("dynamic_reshape", {shares, list({0, config_.kv_heads, -1, 0})});
    NodeInput result = named("matmul", target + ".sums", {shares, values});
    result = call("dynamic_reshape", {result, list({0, config_.heads, -1, config_.size_of_values()})});
    result = call("permute", {result}, {{"dims", std::vector<int64_t>{0, 2, 1, 3}}});
    return call("dynamic_reshape", {result, list({0, 0, config_.heads * config_.size_of_values()})});
  }

  /// A score of each head after those of the keys.
  NodeInput with_sink(const std::string& target, const NodeInput& scores) {
    const NodeInput sink =
        named("get_attr", target, {}, {{"value", weight(target + ".weight", {config_.heads})}});
    const NodeInput first = call("slice", {scores}, {{"dims", -1}, {"ends", 1}});
    const NodeInput zeros = call("mul", {first, number(0)});
    const NodeInput column = call("add", {zeros, call("unsqueeze", {sink, list({1, 2})})});
    return call("cat", {scores, column}, {{"dim", -1}});
  }

  double score_scale(int64_t layer) const {
    const double size = static_cast<double>(config_.head_size);
    const double scale = config_.attention_scale != 0 ? config_.attention_scale : 1 / std::sqrt(size);
    return config_.divides_by_layer ? scale / static_cast<double>(layer + 1) : scale;
  }

  NodeInput capped(const NodeInput& x, double cap) {
    return call("mul", {call("tanh", {call("div", {x, number(cap)})}), number(cap)});
  }

  /// Keys and values of the tokens so far, and queries that turn.
  struct Heads {
    NodeInput query;
    NodeInput keys;
    NodeInput values;
  };

  Heads heads_of_hidden(const std::string& target, const NodeInput& x, const Turn& turn) {
    const NodeInput query = normed_heads_of(target + ".query", x, config_.heads);
    const NodeInput key = normed_heads_of(target + ".key", x, config_.kv_heads);
    const NodeInput value = heads_of(target + ".value", x, config_.kv_heads);
    const NodeInput turned_key = turned_heads(target + ".key", key, config_.kv_heads, turn);
    const NodeInput keys = cached(target + ".key_cache", turned_key, {0, 2, 3, 1});
    const NodeInput values = cached(target + ".value_cache", value, {0, 2, 1, 3});
    return {turned_heads(target + ".query", query, config_.heads, turn), keys, values};
  }

  NodeInput latent_row(const std::string& target, const NodeInput& x, int64_t rank) {
    const NodeInput row = linear(target, x, config_.hidden, rank, config_.latent.bias);
    return norm(target + "_norm", row, rank, config_.latent.norm_eps);
  }

  Heads heads_of_latent(const std::string& target, const NodeInput& x, const Turn& turn) {
    const LatentAttention& latent = config_.latent;
    const int64_t heads = config_.heads;
    const int64_t plain = config_.head_size - latent.turning;
    const auto heads_from = [&](const char* name, const NodeInput& from, int64_t in, int64_t size) {
      return split_in_heads(linear(target + name, from, in, heads * size, false), heads, size);
    };
    const NodeInput query =
        latent.query_rank == 0
            ? heads_from(".query", x, config_.hidden, config_.head_size)
            : heads_from(".query", latent_row(target + ".query_latent", x, latent.query_rank),
                         latent.query_rank, config_.head_size);
    const NodeInput row = latent_row(target + ".latent", x, latent.rank);
    NodeInput shared = linear(target + ".turning_key", x, config_.hidden, latent.turning, latent.bias);
    shared = turned(split_in_heads(shared, 1, latent.turning), turn, latent.turning);
    shared = call("expand", {shared, constant(-1), constant(-1), constant(heads), constant(-1)});
    const NodeInput own = heads_from(".key", row, latent.rank, plain);
    const NodeInput value = heads_from(".value", row, latent.rank, config_.size_of_values());
    const NodeInput key = call("cat", {shared, own}, {{"dim", -1}});
    const NodeInput keys = cached(target + ".key_cache", key, {0, 2, 3, 1});
    const NodeInput values = cached(target + ".value_cache", value, {0, 2, 1, 3});
    return {turned(query, turn, config_.head_size), keys, values};
  }

  NodeInput attention(int64_t index, const NodeInput& x) {
    const std::string target = fmt::format("layers.{}.attention", index);
    const bool in_window = config_.layer_has_window(index);
    const Turn turn = !config_.layer_turns(index) ? Turn{} : in_window ? window_turn_ : turn_;
    const Heads heads =
        config_.latent.rank > 0 ? heads_of_latent(target, x, turn) : heads_of_hidden(target, x, turn);
    NodeInput scaled = call("mul", {heads.query, number(score_scale(index))});
    if (config_.query_growth != 0) scaled = call("mul", {scaled, query_scale_});
    const int64_t size = config_.heads * config_.size_of_values();
    NodeInput y =
        attended(target, scaled, heads.keys, heads.values, in_window ? window_visible_ : full_visible_);
    if (config_.inner_norms) y = norm(target + ".output_norm", y, size);
    return linear(target + ".output", y, size, config_.hidden, config_.output_bias);
  }

  /// positive x^2 + slope x above 0, else negative (exp(min(x, least)) - 1 - x) + slope x.
  NodeInput xielu(const std::string& target, const NodeInput& x) {
    const auto parameter = [&](const char* name) {
      return named("get_attr", target + name, {}, {{"value", weight(target + name + ".weight", {1})}});
    };
    const NodeInput slope = parameter(".slope");
    const NodeInput positive = call("softplus", {parameter(".positive")});
    const NodeInput negative = call("add", {call("softplus", {parameter(".negative")}), slope});
    const NodeInput line = call("mul", {x, slope});
    const NodeInput square = call("mul", {call("mul", {x, positive}), x});
    const NodeInput curve = call("sub", {call("elu", {call("minimum", {x, parameter(".least")})}), x});
    return call("where", {call("gt", {x, number(0)}), call("add", {square, line}),
                          call("add", {call("mul", {curve, negative}), line})});
  }

  /// `target` is that of the activation's own parameters.
  NodeInput activated(Activation activation, const std::string& target, const NodeInput& x) {
    switch (activation) {
      case Activation::kXielu:
        return xielu(target, x);
      case Activation::kRelu:
        return call("relu", {x});
      case Activation::kSquaredRelu: {
        const NodeInput positive = call("relu", {x});
        return call("mul", {positive, positive});
      }
      case Activation::kGelu:
        return call("gelu", {x});
      case Activation::kGeluTanh:
        return call("gelu", {x}, {{"approximate", "tanh"}});
      case Activation::kSilu:
        break;
    }
    return call("silu", {x});
  }

  NodeInput perceptron(int64_t index, const NodeInput& x) {
    if (config_.layer_has_experts(index)) return experts(fmt::format("layers.{}.experts", index), x);
    return perceptron(fmt::format("layers.{}.perceptron", index), x, config_.intermediate,
                      config_.perceptron_bias);
  }

  NodeInput clamped_gate(const NodeInput& gate, const NodeInput& up) {
    const ClampedGate& clamped = config_.experts.gate;
    const NodeInput most = number(clamped.limit);
    const NodeInput low = call("minimum", {gate, most});
    const NodeInput share = call("sigmoid", {call("mul", {low, number(clamped.slope)})});
    const NodeInput wide = call("clamp", {up, number(-clamped.limit), most});
    return call("mul", {call("add", {wide, number(1)}), call("mul", {low, share})});
  }

  NodeInput perceptron(const std::string& target, const NodeInput& x, int64_t size, bool bias) {
    const auto wide = [&](const char* name) { return linear(target + name, x, config_.hidden, size, bias); };
    NodeInput y;
    if (config_.experts.gate.slope != 0) {
      const NodeInput gate = wide(".gate");
      y = clamped_gate(gate, wide(".up"));
    } else if (config_.perceptron == PerceptronKind::kGated) {
      const NodeInput gate = activated(config_.activation, target + ".activation", wide(".gate"));
      y = call("mul", {gate, wide(".up")});
    } else {
      y = activated(config_.activation, target + ".activation", wide(".up"));
    }
    if (config_.inner_norms) y = norm(target + ".down_norm", y, size);
    return linear(target + ".down", y, size, config_.hidden, bias);
  }

  /// The share of each expert, [N, sequence, 1]: 0 of those that are not used. A decoder leaves those out
  /// (decoder.cc).
  NodeInput shares_of_experts(const std::string& target, const NodeInput& x) {
    const Experts& experts = config_.experts;
    const NodeInput scores = linear(target + ".router", x, config_.hidden, experts.count, experts.has_biases);
    if (experts.by_sigmoid || experts.choice_bias || experts.groups > 1 || experts.scale != 1)
      return chosen_shares(target, scores);
    const NodeInput of_all = named("softmax", target + ".of_all", {scores}, {}, {{"dim", -1}});
    const NodeInput used = call("topk", {of_all, constant(experts.used)}, {{"dim", -1}});
    NodeInput shares = used;
    if (experts.normalized) {
      const NodeInput sum = call("sum", {used, list({2})}, {{"keepdim", true}});
      shares = call("div", {used, sum});
    }
    const NodeInput is_used = picked(target + ".places", used, experts.count);
    const NodeInput by_use = call("where", {is_used, call("unsqueeze", {shares, list({3})}), number(0)});
    return split_by_expert(target, call("sum", {by_use, list({2})}));
  }

  NodeInput split_by_expert(const std::string& target, const NodeInput& shares) {
    const std::vector<int64_t> sizes(static_cast<size_t>(config_.experts.count), 1);
    return named("split", target + kExpertShares, {shares}, {}, {{"sizes", sizes}, {"dim", -1}});
  }

  /// Which of `count` each result of topk picks, [N, sequence, picks, count].
  NodeInput picked(const std::string& target, const NodeInput& top, int64_t count) {
    std::vector<int64_t> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    const NodeInput places = constant_tensor(target, Tensor::from<int64_t>({count}, all));
    return call("eq", {call("unsqueeze", {NodeInput::of(top.node, 1), list({3})}), places});
  }

  /// Shares that are picked by other numbers than they count with.
  NodeInput chosen_shares(const std::string& target, const NodeInput& scores) {
    const Experts& experts = config_.experts;
    const NodeInput of_all = experts.by_sigmoid
                                 ? named("sigmoid", target + ".of_all", {scores})
                                 : named("softmax", target + ".of_all", {scores}, {}, {{"dim", -1}});
    NodeInput choice = of_all;
    if (experts.choice_bias) {
      const NodeInput bias = named("get_attr", target + ".choice", {},
                                   {{"value", weight(target + ".choice.weight", {experts.count})}});
      choice = call("add", {choice, bias});
    }
    if (experts.groups > 1) choice = of_used_groups(target, choice);
    const NodeInput top = call("topk", {choice, constant(experts.used)}, {{"dim", -1}});
    const NodeInput is_used = picked(target + ".places", top, experts.count);
    const NodeInput by_use = call("where", {is_used, call("unsqueeze", {of_all, list({2})}), number(0)});
    NodeInput shares = call("sum", {by_use, list({2})});
    if (experts.normalized) {
      const NodeInput sum = call("sum", {shares, list({2})}, {{"keepdim", true}});
      shares = call("div", {shares, call("maximum", {sum, number(experts.least_sum)})});
    }
    if (experts.scale != 1) shares = call("mul", {shares, number(experts.scale)});
    return split_by_expert(target, shares);
  }

  /// Choices of the groups whose greatest ones sum up to most; others are the least number.
  NodeInput of_used_groups(const std::string& target, const NodeInput& choice) {
    const Experts& experts = config_.experts;
    const NodeInput groups =
        call("dynamic_reshape", {choice, list({0, 0, experts.groups, experts.count / experts.groups})});
    const NodeInput most = call("topk", {groups, constant(experts.group_shares)}, {{"dim", -1}});
    const NodeInput sums = call("sum", {most, list({3})});
    const NodeInput top = call("topk", {sums, constant(experts.groups_used)}, {{"dim", -1}});
    const NodeInput is_picked = picked(target + ".groups", top, experts.groups);
    const NodeInput count = call("sum", {call("cast", {is_picked}, {{"dtype", "float32"}}), list({2})});
    const NodeInput is_used = call("unsqueeze", {call("gt", {count, number(0)}), list({3})});
    const NodeInput kept = call("where", {is_used, groups, number(kUnseen)});
    return call("dynamic_reshape", {kept, list({0, 0, experts.count})});
  }

  NodeInput experts(const std::string& target, const NodeInput& x) {
    const Experts& experts = config_.experts;
    const NodeInput shares = shares_of_experts(target, x);
    const bool biased = experts.has_biases || config_.perceptron_bias;
    NodeInput sum;
    for (int64_t i = 0; i < experts.count; ++i) {
      const NodeInput y = perceptron(fmt::format("{}.{}", target, i), x, experts.intermediate, biased);
      const NodeInput share = NodeInput::of(shares.node, static_cast<size_t>(i));
      const NodeInput part = call("mul", {y, share});
      sum = i == 0 ? part : call("add", {sum, part});
    }
    if (experts.shared == 0) return sum;
    NodeInput shared = perceptron(target + ".shared", x, experts.shared, biased);
    if (experts.shared_gate) {
      const NodeInput gate = linear(target + ".shared_router", x, config_.hidden, 1, false);
      shared = call("mul", {shared, call("sigmoid", {gate})});
    }
    return call("add", {sum, shared});
  }

  template <class Part>
  NodeInput with_norms(const std::string& name, const NodeInput& x, Part part) {
    const int64_t size = config_.hidden;
    if (config_.norm_place == NormPlace::kAfter) return norm(name, call("add", {x, part(x)}), size);
    const bool has_none = config_.norm_place == NormPlace::kAfterPart ||
                          (!config_.first_norm && name == "layers.0.attention_norm");
    NodeInput y = part(has_none ? x : norm(name, x, size));
    if (config_.norm_place != NormPlace::kBefore) {
      const std::string after = name.substr(0, name.rfind("_norm")) + "_post_norm";
      y = norm(after, y, size);
    }
    if (config_.residual_scale != 1) y = call("mul", {y, number(config_.residual_scale)});
    return call("add", {x, y});
  }

  NodeInput layer(int64_t index, const NodeInput& x) {
    const std::string target = fmt::format("layers.{}.", index);
    if (config_.perceptron_place != PerceptronPlace::kAfter) {
      const NodeInput first = norm(target + "attention_norm", x, config_.hidden);
      const NodeInput attended = attention(index, first);
      const bool has_one = config_.perceptron_place == PerceptronPlace::kBesideOneNorm;
      const NodeInput second = has_one ? first : norm(target + "perceptron_norm", x, config_.hidden);
      return call("add", {call("add", {attended, perceptron(index, second)}), x});
    }
    const NodeInput y =
        with_norms(target + "attention_norm", x, [&](const NodeInput& z) { return attention(index, z); });
    return with_norms(target + "perceptron_norm", y,
                      [&](const NodeInput& z) { return perceptron(index, z); });
  }

  NodeInput logits(NodeInput x) {
    NodeInput y;
    if (config_.head_layer) {
      x = linear("head_layer", x, config_.hidden, config_.hidden, config_.head_layer_bias);
      x = norm("head_norm", activated(config_.head_activation, "head_activation", x), config_.hidden);
    }
    if (config_.tied_head) {
      std::vector<std::pair<std::string, ParameterRef>> parameters = {
          {"weight", built_.node("embed_tokens").parameters.front().second}};
      if (config_.head_bias) parameters.emplace_back("bias", weight("head.bias", {config_.vocabulary}));
      y = named("linear", "head", {x}, std::move(parameters));
    } else {
      y = linear("head", x, config_.token_size(), config_.vocabulary, config_.head_bias);
    }
    if (config_.logit_scale != 1) y = call("mul", {y, number(config_.logit_scale)});
    return config_.logit_cap ? capped(y, *config_.logit_cap) : y;
  }

  Graph finished(const NodeInput& x) {
    built_.add({.name = "output",
                .op = "output",
                .mase_type = MaseType::kOutput,
                .inputs = {x},
                .source_names = {config_.is_causal ? "logits" : "last_hidden_state"}});
    verify(built_);
    return std::move(built_);
  }

  const LanguageConfig& config_;
  WeightSource& weights_;
  Graph built_;
  std::map<std::string, int> uses_;
  NodeInput tokens_;
  NodeInput mask_;
  NodeInput types_;
  NodeInput past_;   // how many tokens come before the queries, as a list of one
  NodeInput total_;  // how many there are
  NodeInput queries_;
  NodeInput keys_;
  NodeInput full_visible_;
  NodeInput window_visible_;
  NodeInput distance_places_;
  NodeInput distance_bias_;
  NodeInput query_scale_;
  Turn turn_;
  Turn window_turn_;
};

}  // namespace

Graph build_language_graph(const LanguageConfig& config, WeightSource& weights) {
  check_language_config(config, fmt::format("a network of the family \"{}\"", config.family));
  return LanguageGraphBuilder(config, weights).build();
}

ValueTypes values_of_tokens(const Graph& graph, int64_t tokens) {
  NamedSizes sizes;
  for (const auto& [name, type] : graph.input_types()) {
    for (const Dimension& dimension : type.shape) {
      if (dimension.is_named()) sizes[dimension.symbol] = dimension.symbol == kBatchName ? 1 : tokens;
    }
  }
  return infer_shapes(graph, sizes);
}

}  // namespace detent
