#include <array>
#include <cmath>
#include <limits>

#include "detent/core/error.h"
#include "detent/operators/attention/onnx_heads.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum AttentionInput : size_t { kQuery, kKey, kValue, kMask, kPastKey, kPastValue, kValidKeys };
enum AttentionOutput : size_t { kResult, kPresentKey, kPresentValue, kScores };

/// The attention of one node: what its inputs are, once they have heads.
struct Heads {
  NodeInput query;
  NodeInput key;    // with those of the past
  NodeInput value;  // likewise
  int64_t count = 0;
  int64_t of_keys = 0;
  int64_t size = 0;
};

NodeInput with_past(NodeImport& node, NodeInput now, size_t past) {
  return node.has_input(past) ? node.add("cat", {node.input(past), std::move(now)}, {{"dim", kSequenceAxis}})
                              : now;
}

Heads heads_of(NodeImport& node) {
  const size_t rank = node.rank(kQuery);
  if ((rank != 3 && rank != 4) || node.rank(kKey) != rank || node.rank(kValue) != rank)
    fail("inputs of {}, {} and {} dimensions, expected all of 3 or all of 4", rank, node.rank(kKey),
         node.rank(kValue));
  if (node.has_input(kPastKey) != node.has_input(kPastValue)) fail("only one of past_key and past_value");
  Heads heads;
  if (rank == 4) {
    heads = {node.input(kQuery),          node.input(kKey),          node.input(kValue),
             known_size(node, kQuery, 1), known_size(node, kKey, 1), known_size(node, kQuery, 3)};
  } else {
    heads.count = node.integer("q_num_heads", 0);
    heads.of_keys = node.integer("kv_num_heads", 0);
    expect_heads(heads.count, heads.of_keys);
    heads.size = known_size(node, kQuery, 2) / heads.count;
    heads.query = split_heads(node, node.input(kQuery), heads.count);
    heads.key = split_heads(node, node.input(kKey), heads.of_keys);
    heads.value = split_heads(node, node.input(kValue), heads.of_keys);
  }
  expect_heads(heads.count, heads.of_keys);
  heads.key = with_past(node, heads.key, kPastKey);
  heads.value = with_past(node, heads.value, kPastValue);
  return heads;
}

/// Whether a query attends a key by their positions and the mask: conditions that all have to hold.
class Visibility {
 public:
  explicit Visibility(NodeImport& node) : node_(node) {}

  void require(NodeInput condition) {
    all_ = all_.is_absent() ? std::move(condition) : node_.add("logical_and", {all_, std::move(condition)});
  }
  const NodeInput& all() const { return all_; }

 private:
  NodeImport& node_;
  NodeInput all_ = NodeInput::absent();
};

/// The numbers of keys that are valid, one a sample, as [batch, 1, 1, 1].
NodeInput valid_keys(NodeImport& node) {
  return node.add("unsqueeze", {node.input(kValidKeys), NodeImport::list_of({1, 2, 3})});
}

/// Positions of queries among the keys, as a column: they come after the past.
NodeInput query_positions(NodeImport& node, const Heads& heads) {
  const NodeInput counts = node.add("unsqueeze", {places_of(node, heads.query), NodeImport::list_of({1})});
  if (node.has_input(kPastKey))
    return node.add("add", {counts, node.size_of(node.input(kPastKey), kSequenceAxis)});
  if (!node.has_input(kValidKeys)) return counts;
  const NodeInput offset = node.add("sub", {valid_keys(node), node.size_of(heads.query, kSequenceAxis)});
  return node.add("add", {counts, offset});
}

void require_positions(NodeImport& node, const Heads& heads, Visibility& visible) {
  const bool is_causal = node.integer("is_causal", 0) != 0;
  const int64_t left = node.integer("left_window_size", -1);
  const int64_t right = node.integer("right_window_size", -1);
  if (!is_causal && left < 0 && right < 0 && !node.has_input(kValidKeys)) return;
  const NodeInput keys = places_of(node, heads.key);
  if (is_causal || left >= 0 || right >= 0) {
    const NodeInput places = query_positions(node, heads);
    if (is_causal) visible.require(node.add("le", {keys, places}));
    const auto shifted = [&](int64_t by) { return node.add("add", {places, NodeImport::integer_of(by)}); };
    if (left >= 0) visible.require(node.add("ge", {keys, shifted(-left)}));
    if (right >= 0) visible.require(node.add("le", {keys, shifted(right)}));
  }
  if (node.has_input(kValidKeys)) visible.require(node.add("lt", {keys, valid_keys(node)}));
}

/// The mask; where it has fewer keys than there are, the others are not attended.
NodeInput whole_mask(NodeImport& node, const Heads& heads) {
  const NodeInput mask = node.input(kMask);
  const auto given = node.size(kMask, -1);
  const int64_t keys = node.type_of(heads.key).shape[kSequenceAxis];
  if (!given || *given >= keys) return mask;
  const bool is_bool = node.type(kMask).dtype == DType::kBool;
  std::vector<int64_t> border(2 * node.rank(kMask), 0);
  border.back() = keys - *given;
  const NodeInput beyond =
      is_bool ? node.constant_of(Tensor(DType::kBool, {})) : NodeImport::number_of(-kInfinity);
  return node.add("dynamic_pad", {mask, NodeImport::list_of(border), beyond}, {{"mode", "constant"}});
}

/// Addend of the scores; absent where there is none.
NodeInput bias_of(NodeImport& node, const Heads& heads) {
  Visibility visible(node);
  const bool has_numbers = node.has_input(kMask) && node.type(kMask).dtype != DType::kBool;
  NodeInput added = NodeInput::absent();
  if (has_numbers) added = whole_mask(node, heads);
  if (node.has_input(kMask) && !has_numbers) visible.require(whole_mask(node, heads));
  require_positions(node, heads, visible);
  if (visible.all().is_absent()) return added;
  if (!has_numbers) added = node.constant_of(Tensor(DType::kFloat32, {}));
  return node.add("where", {visible.all(), added, NodeImport::number_of(-kInfinity)});
}

/// Zeros in the rows of queries that attend no key.
NodeInput without_empty_rows(NodeImport& node, NodeInput shares, const NodeInput& bias) {
  const NodeInput largest = node.add("amax", {bias, NodeImport::list_of({-1})}, {{"keepdim", true}});
  const NodeInput is_empty = node.add("eq", {largest, NodeImport::number_of(-kInfinity)});
  return node.add("where", {is_empty, NodeImport::number_of(0), std::move(shares)});
}

/// The scores after each step, as the node's fourth output may ask for them.
using Steps = std::array<NodeInput, 4>;

Steps scores_of(NodeImport& node, const Heads& heads) {
  const double otherwise = 1 / std::sqrt(static_cast<double>(heads.size));
  const NodeInput key = repeated_heads(node, heads.key, heads.count, heads.of_keys);
  Steps steps;
  steps[0] = scaled_scores(node, heads.query, key, node.number("scale", otherwise));
  const double cap = node.number("softcap", 0);
  steps[1] = cap > 0 ? soft_capped(node, steps[0], cap) : steps[0];
  const NodeInput bias = bias_of(node, heads);
  steps[2] = bias.is_absent() ? steps[1] : node.add("add", {steps[1], bias});
  steps[3] = node.add("softmax", {steps[2]}, {{"dim", -1}});
  if (!bias.is_absent()) steps[3] = without_empty_rows(node, steps[3], bias);
  return steps;
}

/// softmax(scale Q K^T + bias) V for each head.
void convert_attention(NodeImport& node) {
  const Heads heads = heads_of(node);
  static_cast<void>(node.integer("softmax_precision", 0));  // all floats are float32 here
  const Steps steps = scores_of(node, heads);
  NodeInput result =
      node.add("matmul", {steps[3], repeated_heads(node, heads.value, heads.count, heads.of_keys)});
  if (node.rank(kQuery) == 3) result = join_heads(node, result);
  node.set_output(kResult, result);
  if (node.wants(kPresentKey)) node.set_output(kPresentKey, heads.key);
  if (node.wants(kPresentValue)) node.set_output(kPresentValue, heads.value);
  const int64_t mode = node.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) fail("qk_matmul_output_mode is {}, expected 0 to 3", mode);
  if (node.wants(kScores)) node.set_output(kScores, steps[static_cast<size_t>(mode)]);
}

/// Cosines or sines for [batch, heads, sequence, half of what turns].
NodeInput angles(NodeImport& node, size_t input) {
  NodeInput table = node.input(input);
  if (node.has_input(3)) table = node.add("gather", {table, node.input(3)}, {{"dim", 0}});
  return node.add("unsqueeze", {table, NodeImport::list_of({1})});
}

/// Pairs of elements of each head, halves of it or neighbours, turned by the angles of their position.
void convert_rotary_embedding(NodeImport& node) {
  const bool has_heads = node.rank(0) == 4;
  const int64_t count = node.integer("num_heads", 0);
  if (!has_heads && (node.rank(0) != 3 || count < 1))
    fail("num_heads {} and an input of {} dimensions, expected 4, or 3 and a number of heads", count,
         node.rank(0));
  const NodeInput x = has_heads ? node.input(0) : split_heads(node, node.input(0), count);
  const int64_t size = has_heads ? known_size(node, 0, 3) : known_size(node, 0, 2) / count;
  const int64_t given = node.integer("rotary_embedding_dim", 0);
  const Turning turning = {turned_count(given, size), node.integer("interleaved", 0) != 0, angles(node, 1),
                           angles(node, 2)};
  const NodeInput result = turned(node, x, size, turning);
  node.set_output(0, has_heads ? result : join_heads(node, result));
}

/// The cache with new parts at the positions that each sample has reached; past its end comes its beginning
/// where it is circular.
void convert_tensor_scatter(NodeImport& node) {
  const auto rank = static_cast<int64_t>(node.rank(0));
  int64_t axis = node.integer("axis", -2);
  if (axis < 0) axis += rank;
  if (axis < 1 || axis >= rank) fail("axis {} of {} dimensions, expected 1 to {}", axis, rank, rank - 1);
  const std::string mode = node.text("mode", "linear");
  if (mode != "linear" && mode != "circular") fail("mode is \"{}\", expected linear or circular", mode);
  const NodeInput update = node.input(1);
  const auto column = [&](NodeInput list, int64_t dim) {
    std::vector<int64_t> others;
    for (int64_t d = 0; d < rank; ++d)
      if (d != dim) others.push_back(d);
    return node.add("unsqueeze", {std::move(list), NodeImport::list_of(others)});
  };
  NodeInput places = column(node.integers_below(node.size_of(update, axis)), axis);
  if (node.has_input(2)) places = node.add("add", {column(node.input(2), 0), places});
  if (mode == "circular") places = node.add("remainder", {places, node.size_of(node.input(0), axis)});
  const NodeInput everywhere = node.add("dynamic_expand", {places, node.add("shape_of", {update})});
  node.set_output(0, node.add("scatter_elements", {node.input(0), everywhere, update}, {{"dim", axis}}));
}

}  // namespace

OnnxConverterList attention_converters() {
  return {{"Attention", convert_attention},
          {"RotaryEmbedding", convert_rotary_embedding},
          {"TensorScatter", convert_tensor_scatter}};
}

}  // namespace detent
