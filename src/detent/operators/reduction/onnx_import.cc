#include <algorithm>
#include <numeric>

#include "detent/core/error.h"
#include "detent/graph/known_elements.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

constexpr int64_t kSumAxesAreInput = 13;
constexpr int64_t kReductionAxesAreInput = 18;

/// The axes as an operand, or nothing; they were an attribute first.
struct Axes {
  bool none_at_all = false;  // nothing is reduced
  NodeInput operand = NodeInput::absent();
};

Axes axes_of(NodeImport& node) {
  const bool is_input =
      node.opset() >= (node.op() == "ReduceSum" ? kSumAxesAreInput : kReductionAxesAreInput);
  if (!is_input) {
    if (!node.has_attribute("axes")) return {};
    return {false, NodeImport::list_of(node.integers("axes", {}))};
  }
  const bool noop = node.integer("noop_with_empty_axes", 0) != 0;
  if (!node.has_input(1)) return {noop};
  const Shape& shape = node.type(1).shape;
  if (shape == Shape{0}) return {noop};
  return {false, node.list(1)};
}

NodeInput reduced(NodeImport& node, const char* op, NodeInput input) {
  const Axes axes = axes_of(node);
  if (axes.none_at_all) return input;
  std::vector<NodeInput> inputs = {std::move(input)};
  if (!axes.operand.is_absent()) inputs.push_back(axes.operand);
  return node.add(op, std::move(inputs), {{"keepdim", node.integer("keepdims", 1) != 0}});
}

template <const char* kName>
void convert_reduction(NodeImport& node) {
  if (axes_of(node).none_at_all) return node.pass_on(0);
  node.set_output(0, reduced(node, kName, node.input(0)));
}

/// Whether all or any hold, of truths.
template <const char* kName>
void convert_extreme(NodeImport& node) {
  if (node.type(0).dtype != DType::kBool || axes_of(node).none_at_all) return convert_reduction<kName>(node);
  const NodeInput numbers = node.add("cast", {node.input(0)}, {{"dtype", "uint8"}});
  node.set_output(0, node.add("cast", {reduced(node, kName, numbers)}, {{"dtype", "bool"}}));
}

constexpr char kSum[] = "sum";
constexpr char kMean[] = "mean";
constexpr char kProd[] = "prod";
constexpr char kMax[] = "amax";
constexpr char kMin[] = "amin";
constexpr char kLogSumExp[] = "logsumexp";

/// Pools keep the places with size 1, and mean(x) becomes one (recognize_pools).
void convert_mean(NodeImport& node) {
  const Axes axes = axes_of(node);
  const bool keeps_places = axes.none_at_all || node.integer("keepdims", 1) != 0;
  if (keeps_places || !are_places(axes.operand, node.rank(0))) return convert_reduction<kMean>(node);
  const NodeInput mean = node.add(kMean, {node.input(0), axes.operand}, {{"keepdim", true}});
  node.set_output(0, node.add("flatten", {mean}, {{"start_dim", 1}}));
}

NodeInput square(NodeImport& node) { return node.add("mul", {node.input(0), node.input(0)}); }

void convert_l1(NodeImport& node) {
  node.set_output(0, reduced(node, kSum, node.add("abs", {node.input(0)})));
}

void convert_l2(NodeImport& node) {
  node.set_output(0, node.add("sqrt", {reduced(node, kSum, square(node))}));
}

void convert_sum_square(NodeImport& node) { node.set_output(0, reduced(node, kSum, square(node))); }

void convert_log_sum(NodeImport& node) {
  node.set_output(0, node.add("log", {reduced(node, kSum, node.input(0))}));
}

void convert_cumsum(NodeImport& node) {
  node.set_output(0, node.add("cumsum", {node.input(0), node.list(1)},
                              {{"exclusive", node.integer("exclusive", 0) != 0},
                               {"reverse", node.integer("reverse", 0) != 0}}));
}

/// Elements so many places further along an axis, and ones where there is none.
NodeInput moved_along(NodeImport& node, const NodeInput& x, size_t axis, int64_t places) {
  const size_t rank = node.rank(0);
  std::vector<int64_t> borders(2 * rank, 0);
  borders[axis] = places;
  borders[rank + axis] = -places;
  const bool is_float = node.type(0).dtype == DType::kFloat32;
  const NodeInput one = is_float ? NodeImport::number_of(1) : NodeImport::integer_of(1);
  return node.add("dynamic_pad", {x, NodeImport::list_of(borders), one});
}

/// Products of all elements up to each: of pairs, then of pairs of these, and so on.
NodeInput cumulative_product(NodeImport& node, int64_t axis) {
  const auto size = node.size(0, axis);
  if (!size) node.refuse("an open size of the axis");
  const int64_t direction = node.integer("reverse", 0) != 0 ? -1 : 1;
  NodeInput x = node.input(0);
  const auto at = static_cast<size_t>(axis);
  if (node.integer("exclusive", 0) != 0 && *size > 0) x = moved_along(node, x, at, direction);
  for (int64_t step = 1; step < *size; step *= 2)
    x = node.add("mul", {x, moved_along(node, x, at, direction * step)});
  return x;
}

/// Along an axis that a run gives, those along each are computed, and one is taken.
void convert_cumulative_product(NodeImport& node) {
  const auto rank = static_cast<int64_t>(node.rank(0));
  if (node.constant(1) != nullptr) {
    const int64_t given = node.integer(size_t{1}).value_or(rank);
    const int64_t axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis >= rank) fail("axis {} of {} dimensions", given, rank);
    return node.set_output(0, cumulative_product(node, axis));
  }
  if (rank < 1) fail("an input without dimensions");
  NodeInput axis = node.input(1);
  if (node.rank(1) > 0) axis = node.add("dynamic_reshape", {axis, NodeImport::list_of({1})});
  NodeInput result = cumulative_product(node, 0);
  for (int64_t d = 1; d < rank; ++d) {
    const NodeInput is_it =
        node.add("logical_or", {node.add("eq", {axis, NodeImport::integer_of(d)}),
                                node.add("eq", {axis, NodeImport::integer_of(d - rank)})});
    result = node.add("where", {is_it, cumulative_product(node, d), result});
  }
  node.set_output(0, result);
}

/// k was an attribute before opset 10.
void convert_top_k(NodeImport& node) {
  constexpr int64_t kIsInput = 10;
  const NodeInput k = node.opset() < kIsInput ? NodeImport::list_of({node.integer("k", 0)}) : node.list(1);
  const NodeInput both = node.add("topk", {node.input(0), k},
                                  {{"dim", node.integer("axis", -1)},
                                   {"largest", node.integer("largest", 1) != 0},
                                   {"sorted", node.integer("sorted", 1) != 0}});
  node.set_output(0, both);
  if (node.wants(1)) node.set_output(1, NodeInput::of(both.node, 1));
}

/// x / its norm along an axis, or 0 where that is 0.
void convert_lp_normalization(NodeImport& node) {
  const int64_t p = node.integer("p", 2);
  if (p != 1 && p != 2) fail("p is {}, expected 1 or 2", p);
  const NodeInput axis = NodeImport::list_of({node.integer("axis", -1)});
  const NodeInput magnitudes = p == 1 ? node.add("abs", {node.input(0)}) : square(node);
  NodeInput norm = node.add(kSum, {magnitudes, axis}, {{"keepdim", true}});
  if (p == 2) norm = node.add("sqrt", {norm});
  const NodeInput zero = NodeImport::number_of(0);
  const NodeInput quotient = node.add("div", {node.input(0), norm});
  node.set_output(0, node.add("where", {node.add("eq", {norm, zero}), zero, quotient}));
}

}  // namespace

bool are_places(const NodeInput& axes, size_t rank) {
  const bool is_image = rank == 4 || rank == 5;
  auto dims = is_image && axes.is_constant() ? listed_integers(axes.constant) : std::nullopt;
  if (!dims) return false;
  for (int64_t& dim : *dims)
    if (dim < 0) dim += static_cast<int64_t>(rank);
  std::ranges::sort(*dims);
  std::vector<int64_t> places(rank - 2);
  std::iota(places.begin(), places.end(), 2);
  return *dims == places;
}

OnnxConverterList reduction_converters() {
  return {{"ReduceSum", convert_reduction<kSum>},
          {"ReduceMean", convert_mean},
          {"ReduceProd", convert_reduction<kProd>},
          {"ReduceMax", convert_extreme<kMax>},
          {"ReduceMin", convert_extreme<kMin>},
          {"ReduceLogSumExp", convert_reduction<kLogSumExp>},
          {"ReduceL1", convert_l1},
          {"ReduceL2", convert_l2},
          {"ReduceSumSquare", convert_sum_square},
          {"ReduceLogSum", convert_log_sum},
          {"CumSum", convert_cumsum},
          {"CumProd", convert_cumulative_product},
          {"TopK", convert_top_k},
          {"LpNormalization", convert_lp_normalization}};
}

}  // namespace detent
