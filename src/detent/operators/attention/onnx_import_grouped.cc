#include <cmath>
#include <limits>
#include <optional>

#include "detent/core/error.h"
#include "detent/operators/attention/onnx_heads.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

// Attention of language models as ONNX Runtime's tools write it, with a cache of keys and values that comes
// in and goes out: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md

enum GroupedInput : size_t {
  kQueries,
  kNewKeys,
  kNewValues,
  kCachedKeys,
  kCachedValues,
  kLastPlaces,
  kWholeLength,
  kCosines,
  kSines,
  kGivenPlaces,
  kAddedBias,
  kSinks,
  kKeyScale,
};

/// Queries, keys and values with heads, and how many of them there are.
struct GroupedParts {
  NodeInput query;
  NodeInput key;
  NodeInput value;
  int64_t heads = 0;
  int64_t of_keys = 0;
  int64_t size = 0;
};

const char* name_of(size_t input) {
  switch (input) {
    case kNewKeys:
      return "key";
    case kNewValues:
      return "value";
    case kCachedKeys:
      return "past_key";
    default:
      return "past_value";
  }
}

/// An open size does not fit what has the right one, so that the import takes that.
void expect_size(NodeImport& node, size_t input, int64_t dim, int64_t size) {
  const std::optional<int64_t> given = node.size(input, dim);
  if (!given) {
    Shape shape(node.rank(input), 1);
    shape[static_cast<size_t>(dim)] = size;
    static_cast<void>(
        node.add("add", {node.input(input), node.constant_of(Tensor(DType::kFloat32, std::move(shape)))}));
  } else if (*given != size) {
    fail("{} has size {} in dimension {}, expected {}", name_of(input), *given, dim, size);
  }
}

void expect_cache(NodeImport& node, const GroupedParts& parts) {
  for (const size_t cache : {kCachedKeys, kCachedValues}) {
    if (!node.has_input(cache)) continue;
    if (node.rank(cache) != 4) fail("{} of {} dimensions, expected 4", name_of(cache), node.rank(cache));
    expect_size(node, cache, kHeadAxis, parts.of_keys);
    expect_size(node, cache, 3, parts.size);
  }
}

GroupedParts grouped_parts(NodeImport& node) {
  GroupedParts parts;
  parts.heads = node.integer("num_heads", 0);
  parts.of_keys = node.integer("kv_num_heads", 0);
  expect_heads(parts.heads, parts.of_keys);
  if (node.rank(kQueries) != 3) fail("queries of {} dimensions, expected 3", node.rank(kQueries));
  const bool is_packed = !node.has_input(kNewKeys);
  if (is_packed != !node.has_input(kNewValues)) fail("only one of key and value");
  const int64_t columns = known_size(node, kQueries, 2);
  parts.size = size_of_heads(columns, is_packed ? parts.heads + 2 * parts.of_keys : parts.heads);
  NodeInput query = node.input(kQueries);
  NodeInput key;
  NodeInput value;
  if (is_packed) {
    const int64_t of_queries = parts.heads * parts.size;
    const int64_t of_keys = parts.of_keys * parts.size;
    key = sliced_last(node, query, of_queries, of_queries + of_keys);
    value = sliced_last(node, query, of_queries + of_keys, columns);
    query = sliced_last(node, query, 0, of_queries);
  } else {
    for (const size_t input : {kNewKeys, kNewValues}) expect_size(node, input, 2, parts.of_keys * parts.size);
    key = node.input(kNewKeys);
    value = node.input(kNewValues);
  }
  parts.query = split_heads(node, std::move(query), parts.heads);
  parts.key = split_heads(node, std::move(key), parts.of_keys);
  parts.value = split_heads(node, std::move(value), parts.of_keys);
  return parts;
}

NodeInput integers_of(NodeImport& node, size_t input) {
  NodeInput x = node.input(input);
  return node.type_of(x).dtype == DType::kInt64 ? x : node.add("cast", {x}, {{"dtype", "int64"}});
}

/// Where the new keys go in each sample's cache.
struct CachePlaces {
  NodeInput queries;  // [batch, sequence]: the place of each
  NodeInput past;     // [batch, 1]: how many keys there were
  NodeInput length;   // of the cache that goes out, a list of one
};

/// A first prompt, whose whole length is that of its queries, has no past.
CachePlaces cache_places(NodeImport& node, const GroupedParts& parts) {
  const NodeInput count = node.size_of(parts.query, kSequenceAxis);
  const NodeInput flat =
      node.add("dynamic_reshape", {integers_of(node, kWholeLength), NodeImport::list_of({1})});
  const NodeInput all = node.add("add", {integers_of(node, kLastPlaces), NodeImport::integer_of(1)});
  const NodeInput column = node.add("dynamic_reshape", {all, NodeImport::list_of({-1, 1})});
  CachePlaces places;
  const NodeInput zeros = node.add("sub", {column, column});
  places.past = node.add("where", {node.add("eq", {flat, count}), zeros, node.add("sub", {column, count})});
  places.queries = node.add("add", {places.past, places_of(node, parts.query)});
  places.length = flat;
  if (node.has_input(kCachedKeys))
    places.length = node.add("maximum", {flat, node.size_of(node.input(kCachedKeys), kSequenceAxis)});
  return places;
}

/// Keys or values of one place, all of them 0.
NodeInput zeros_of_place(NodeImport& node, const NodeInput& x) {
  const NodeInput one = node.constant_of(Tensor::from<int64_t>({1}, std::vector<int64_t>{1}));
  const NodeInput samples_and_heads = node.add("shape_of", {x}, {{"start", 0}, {"end", 2}});
  const NodeInput shape = node.add("cat", {samples_and_heads, one, node.size_of(x, 3)}, {{"dim", 0}});
  return node.add("full", {shape}, {{"value", 0}, {"dtype", "float32"}});
}

/// The cache with the new part after what each sample has, and zeros after that.
NodeInput with_cached(NodeImport& node, const NodeInput& now, size_t cache, const CachePlaces& places) {
  const NodeInput count = node.size_of(now, kSequenceAxis);
  std::vector<NodeInput> all = {now, zeros_of_place(node, now)};
  NodeInput before = NodeImport::integer_of(0);
  if (node.has_input(cache)) {
    before = node.size_of(node.input(cache), kSequenceAxis);
    all.insert(all.begin(), node.input(cache));
  }
  const NodeInput source = node.add("cat", std::move(all), {{"dim", kSequenceAxis}});
  const NodeInput row = node.integers_below(places.length);
  const NodeInput after = node.add("sub", {row, places.past});  // place among what is new
  const NodeInput of_new = node.add("add", {node.add("minimum", {after, count}), before});
  const NodeInput from = node.add("where", {node.add("ge", {after, NodeImport::integer_of(0)}), of_new, row});
  const NodeInput index = node.add("unsqueeze", {from, NodeImport::list_of({1, 3})});
  const Shape& of_heads = node.type_of(now).shape;
  const NodeInput spread = node.constant_of(Tensor(DType::kInt64, {of_heads[kHeadAxis], 1, of_heads[3]}));
  const NodeInput everywhere = node.add("add", {index, spread});
  return node.add("gather_elements", {source, everywhere}, {{"dim", kSequenceAxis}});
}

/// Queries and keys turned by the angles of their places.
void turn(NodeImport& node, const CachePlaces& places, GroupedParts& parts) {
  if (node.integer("do_rotary", 0) == 0) return;
  const NodeInput rows = node.has_input(kGivenPlaces) ? integers_of(node, kGivenPlaces) : places.queries;
  const auto angles_of = [&](size_t table) {
    const NodeInput found = node.add("gather", {node.input(table), rows}, {{"dim", 0}});
    return node.add("unsqueeze", {found, NodeImport::list_of({kHeadAxis})});
  };
  Turning turning;
  turning.count = turned_count(2 * known_size(node, kCosines, 1), parts.size);
  turning.neighbours = node.integer("rotary_interleaved", 0) != 0;
  turning.cosine = angles_of(kCosines);
  turning.sine = angles_of(kSines);
  parts.query = turned(node, parts.query, parts.size, turning);
  parts.key = turned(node, parts.key, parts.size, turning);
}

/// Keys up to a query's own place, and within a window before it.
NodeInput seen_keys(NodeImport& node, const CachePlaces& places) {
  const NodeInput own = node.add("unsqueeze", {places.queries, NodeImport::list_of({1, 3})});
  const NodeInput keys = node.integers_below(places.length);
  const NodeInput seen = node.add("le", {keys, own});
  const int64_t window = node.integer("local_window_size", -1);
  if (window < 0) return seen;
  const NodeInput first = node.add("sub", {own, NodeImport::integer_of(window)});
  return node.add("logical_and", {seen, node.add("gt", {keys, first})});
}

/// A score of each head and query that takes its share and gives nothing; absent where there is none.
NodeInput sink_scores(NodeImport& node, const CachePlaces& places) {
  NodeInput sinks;
  if (node.has_input(kSinks)) {
    sinks = node.add("dynamic_reshape", {node.input(kSinks), NodeImport::list_of({1, -1, 1, 1})});
  } else if (node.integer("smooth_softmax", 0) == 1) {
    sinks = node.constant_of(Tensor(DType::kFloat32, {1, node.integer("num_heads", 0), 1, 1}));
  } else {
    return NodeInput::absent();
  }
  const NodeInput zeros = node.add("sub", {places.queries, places.queries});
  const NodeInput spread =
      node.add("unsqueeze", {node.add("cast", {zeros}, {{"dtype", "float32"}}), NodeImport::list_of({1, 3})});
  return node.add("add", {sinks, spread});
}

/// The mean of values by the softmax of their scores.
NodeInput mean_of_values(NodeImport& node, NodeInput scores, NodeInput values, const NodeInput& sinks) {
  if (!sinks.is_absent()) {
    values = node.add("cat", {zeros_of_place(node, values), values}, {{"dim", kSequenceAxis}});
    scores = node.add("cat", {sinks, std::move(scores)}, {{"dim", -1}});
  }
  const NodeInput shares = node.add("softmax", {std::move(scores)}, {{"dim", -1}});
  return node.add("matmul", {shares, std::move(values)});
}

void refuse_quantized_cache(const NodeImport& node) {
  for (const char* name : {"k_quant_type", "v_quant_type"})
    if (const std::string type = node.text(name, "NONE"); type != "NONE")
      node.refuse(std::string(name) + " " + type);
  for (size_t i = kKeyScale; i < node.input_count(); ++i)
    if (node.has_input(i)) node.refuse(fmt::format("input {}, of a quantized cache,", i));
  if (node.integer("qk_output", 0) != 0) node.refuse("qk_output");
}

void convert_grouped_attention(NodeImport& node) {
  refuse_quantized_cache(node);
  GroupedParts parts = grouped_parts(node);
  if (node.has_input(kCachedKeys) != node.has_input(kCachedValues))
    fail("only one of past_key and past_value");
  expect_cache(node, parts);
  const CachePlaces places = cache_places(node, parts);
  turn(node, places, parts);
  const NodeInput keys = with_cached(node, parts.key, kCachedKeys, places);
  const NodeInput values = with_cached(node, parts.value, kCachedValues, places);
  double scale = node.number("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(parts.size));
  NodeInput scores =
      scaled_scores(node, parts.query, repeated_heads(node, keys, parts.heads, parts.of_keys), scale);
  if (const double cap = node.number("softcap", 0); cap > 0) scores = soft_capped(node, scores, cap);
  if (node.has_input(kAddedBias)) {
    const NodeInput bias = node.add("dynamic_slice", {node.input(kAddedBias), NodeImport::list_of({0}),
                                                      places.length, NodeImport::list_of({-1})});
    scores = node.add("add", {scores, bias});
  }
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  scores = node.add("where", {seen_keys(node, places), scores, NodeImport::number_of(kNever)});
  const NodeInput result =
      mean_of_values(node, std::move(scores), repeated_heads(node, values, parts.heads, parts.of_keys),
                     sink_scores(node, places));
  node.set_output(0, join_heads(node, result));
  if (node.wants(1)) node.set_output(1, keys);
  if (node.wants(2)) node.set_output(2, values);
}

/// Places count from one number on, or are given for each sample.
NodeInput rotary_places(NodeImport& node, const NodeInput& x) {
  const NodeInput given = integers_of(node, 1);
  if (node.rank(1) == 2) return given;
  if (node.rank(1) != 1) fail("position_ids of {} dimensions, expected 1 or 2", node.rank(1));
  const NodeInput row = node.add("add", {places_of(node, x), given});
  return node.add("unsqueeze", {row, NodeImport::list_of({0})});
}

/// ONNX's operator with the inputs in another order, and sizes that follow from the angles.
void convert_microsoft_rotary(NodeImport& node) {
  if (node.integer("is_packed_batching", 0) != 0) node.refuse("is_packed_batching");
  if (node.number("scale", 1) != 1) node.refuse("a scale");
  const bool has_heads = node.rank(0) == 4;
  if (!has_heads && node.rank(0) != 3) fail("an input of {} dimensions, expected 3 or 4", node.rank(0));
  const int64_t pairs = known_size(node, 2, 1);
  const int64_t given = node.integer("rotary_embedding_dim", 0);
  int64_t heads = node.integer("num_heads", 0);
  if (!has_heads && given == 0)
    heads = std::max<int64_t>(known_size(node, 0, 2) / std::max<int64_t>(2 * pairs, 1), 1);
  if (!has_heads) expect_heads(heads, heads);
  const int64_t size = has_heads ? known_size(node, 0, 3) : size_of_heads(known_size(node, 0, 2), heads);
  const NodeInput x = has_heads ? node.input(0) : split_heads(node, node.input(0), heads);
  const NodeInput rows = rotary_places(node, x);
  const auto angles_of = [&](size_t table) {
    const NodeInput found = node.add("gather", {node.input(table), rows}, {{"dim", 0}});
    return node.add("unsqueeze", {found, NodeImport::list_of({kHeadAxis})});
  };
  Turning turning;
  turning.count = turned_count(given, size);
  if (turning.count != 2 * pairs) fail("angles of {} pairs for {} elements that turn", pairs, turning.count);
  turning.neighbours = node.integer("interleaved", 0) != 0;
  turning.cosine = angles_of(2);
  turning.sine = angles_of(3);
  const NodeInput result = turned(node, x, size, turning);
  node.set_output(0, has_heads ? result : join_heads(node, result));
}

}  // namespace

OnnxConverterList grouped_attention_converters() {
  return {{"GroupQueryAttention", convert_grouped_attention}, {"RotaryEmbedding", convert_microsoft_rotary}};
}

}  // namespace detent
