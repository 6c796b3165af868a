#include "detent/operators/attention/onnx_heads.h"

#include "detent/core/error.h"

namespace detent {

NodeInput exchange_heads(NodeImport& node, NodeInput x) {
  return node.add("permute", {std::move(x)}, {{"dims", Value(std::vector<int64_t>{0, 2, 1, 3})}});
}

NodeInput split_heads(NodeImport& node, NodeInput x, int64_t heads) {
  return exchange_heads(node,
                        node.add("dynamic_reshape", {std::move(x), NodeImport::list_of({0, 0, heads, -1})}));
}

NodeInput join_heads(NodeImport& node, NodeInput x) {
  return node.add("dynamic_reshape", {exchange_heads(node, std::move(x)), NodeImport::list_of({0, 0, -1})});
}

int64_t known_size(const NodeImport& node, size_t input, int64_t dim) {
  const auto size = node.size(input, dim);
  if (!size) node.refuse(fmt::format("an open size of dimension {} of input {}", dim, input));
  return *size;
}

void expect_heads(int64_t of_queries, int64_t of_keys) {
  constexpr int64_t kMost = 1 << 16;
  if (of_queries < 1 || of_keys < 1 || of_queries > kMost || of_queries % of_keys != 0)
    fail("{} heads of queries and {} of keys, expected a multiple, of at most {}", of_queries, of_keys,
         kMost);
}

int64_t size_of_heads(int64_t columns, int64_t heads) {
  if (columns < 1 || columns % heads != 0)
    fail("{} columns for {} heads, expected a multiple", columns, heads);
  return columns / heads;
}

NodeInput repeated_heads(NodeImport& node, const NodeInput& x, int64_t of_queries, int64_t of_keys) {
  if (of_queries == of_keys) return x;
  std::vector<int64_t> places;
  for (int64_t i = 0; i < of_queries; ++i) places.push_back(i * of_keys / of_queries);
  return node.add("gather", {x, NodeImport::list_of(places)}, {{"dim", kHeadAxis}});
}

NodeInput sliced_last(NodeImport& node, const NodeInput& x, int64_t begin, int64_t end, int64_t step) {
  return node.add("dynamic_slice", {x, NodeImport::list_of({begin}), NodeImport::list_of({end}),
                                    NodeImport::list_of({-1}), NodeImport::list_of({step})});
}

NodeInput places_of(NodeImport& node, const NodeInput& x) {
  return node.integers_below(node.size_of(x, kSequenceAxis));
}

NodeInput scaled_scores(NodeImport& node, const NodeInput& query, const NodeInput& key, double scale) {
  const NodeInput scaled = node.add("mul", {query, NodeImport::number_of(scale)});
  const NodeInput columns = node.add("transpose", {key}, {{"dim0", -2}, {"dim1", -1}});
  return node.add("matmul", {scaled, columns});
}

NodeInput soft_capped(NodeImport& node, const NodeInput& x, double cap) {
  const NodeInput part = node.add("tanh", {node.add("div", {x, NodeImport::number_of(cap)})});
  return node.add("mul", {part, NodeImport::number_of(cap)});
}

int64_t turned_count(int64_t given, int64_t size) {
  const int64_t count = given == 0 ? size : given;
  if (count % 2 != 0 || count > size || count < 2)
    fail("{} elements of a head of {} turn, expected an even number", count, size);
  return count;
}

NodeInput turned(NodeImport& node, const NodeInput& x, int64_t size, const Turning& turning) {
  const int64_t count = turning.count;
  const NodeInput a =
      turning.neighbours ? sliced_last(node, x, 0, count, 2) : sliced_last(node, x, 0, count / 2);
  const NodeInput b =
      turning.neighbours ? sliced_last(node, x, 1, count, 2) : sliced_last(node, x, count / 2, count);
  const auto times = [&](const NodeInput& factor, const NodeInput& part) {
    return node.add("mul", {factor, part});
  };
  NodeInput first = node.add("sub", {times(turning.cosine, a), times(turning.sine, b)});
  NodeInput second = node.add("add", {times(turning.sine, a), times(turning.cosine, b)});
  NodeInput result;
  if (turning.neighbours) {
    first = node.add("unsqueeze", {first, NodeImport::list_of({-1})});
    second = node.add("unsqueeze", {second, NodeImport::list_of({-1})});
    const NodeInput pairs = node.add("cat", {first, second}, {{"dim", -1}});
    result = node.add("flatten", {pairs}, {{"start_dim", -2}, {"end_dim", -1}});
  } else {
    result = node.add("cat", {first, second}, {{"dim", -1}});
  }
  if (count == size) return result;
  return node.add("cat", {result, sliced_last(node, x, count, size)}, {{"dim", -1}});
}

}  // namespace detent
