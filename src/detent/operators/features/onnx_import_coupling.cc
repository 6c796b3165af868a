#include <algorithm>

#include "detent/core/error.h"
#include "detent/graph/builder.h"
#include "detent/graph/loop.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

// Probabilities of classes from those of pairs, as libsvm couples them: r[i][j] is that of i where it is i or
// j. From equal ones on, p[i] in turn takes the value that lessens p Q p most, and all are scaled to a sum of
// 1, until |Q p - p Q p| is below a bound. Rows that are below it stay as they are.

constexpr int64_t kMostCoupled = 128;
constexpr int64_t kMostSteps = 100;

/// Numbers of each pair of classes i < j at [i][j], those of `against` at [j][i], and 0 on the diagonal:
/// [N, classes, classes].
NodeInput as_matrix(NodeImport& node, const NodeInput& pairs, const NodeInput& against, int64_t classes) {
  Tensor places(DType::kInt64, {classes, classes});
  Tensor outside(DType::kFloat32, {classes, classes});
  const int64_t count = classes * (classes - 1) / 2;
  int64_t pair = 0;
  const auto at = [&](int64_t i, int64_t j) { return static_cast<size_t>(i * classes + j); };
  for (int64_t i = 0; i < classes; ++i) {
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      places.values<int64_t>()[at(i, j)] = pair;
      places.values<int64_t>()[at(j, i)] = count + pair;
      outside.values<float>()[at(i, j)] = outside.values<float>()[at(j, i)] = 1;
    }
  }
  const NodeInput both = node.add("cat", {pairs, against}, {{"dim", 1}});
  const NodeInput all = node.add("gather", {both, node.constant_of(places)}, {{"dim", 1}});
  return node.add("mul", {all, node.constant_of(outside)});
}

Tensor identity(int64_t size) {
  Tensor result(DType::kFloat32, {size, size});
  for (int64_t i = 0; i < size; ++i) result.values<float>()[static_cast<size_t>(i * (size + 1))] = 1;
  return result;
}

/// Q of p Q p: Q[i][i] is the sum of r[j][i]^2 over j, Q[i][j] is -r[j][i] r[i][j].
NodeInput coupling_matrix(NodeImport& node, const NodeInput& r, const NodeInput& transposed,
                          int64_t classes) {
  const NodeInput squares = node.add("mul", {transposed, transposed});
  const NodeInput sums = node.add("sum", {squares, NodeImport::list_of({-1})}, {{"keepdim", true}});
  const NodeInput diagonal = node.add("mul", {sums, node.constant_of(identity(classes))});
  return node.add("sub", {diagonal, node.add("mul", {r, transposed})});
}

/// Calls of the body's builder.
class CouplingStep {
 public:
  CouplingStep(GraphBuilder& builder, int64_t classes) : builder_(builder), classes_(classes) {}

  /// p after one turn of all classes: of p [N, classes], Q [N, classes, classes] and the identity.
  NodeInput next(const NodeInput& p, const NodeInput& q, const NodeInput& units) {
    const NodeInput row = builder_.call("unsqueeze", {p, list({1})});
    products_ = sum(call("mul", q, row), false);
    mean_ = sum(call("mul", p, products_), true);
    const NodeInput error = builder_.call(
        "amax", {builder_.call("abs", {call("sub", products_, mean_)}), list({-1})}, {{"keepdim", true}});
    const double bound = 0.005 / static_cast<double>(classes_);
    const NodeInput is_done = builder_.call("lt", {error, number(bound)});
    NodeInput turned = p;
    for (int64_t i = 0; i < classes_; ++i) turned = turn(i, turned, q, units);
    return builder_.call("where", {is_done, p, turned});
  }

 private:
  static NodeInput number(double value) { return NodeInput::of_constant(Value(value)); }
  static NodeInput list(const std::vector<int64_t>& values) { return NodeInput::of_constant(Value(values)); }
  NodeInput call(const char* op, const NodeInput& a, const NodeInput& b) { return builder_.call(op, {a, b}); }
  NodeInput sum(const NodeInput& x, bool keeps) {
    return builder_.call("sum", {x, list({-1})}, {{"keepdim", keeps}});
  }
  NodeInput element(const NodeInput& x, int64_t dim, int64_t index) {
    return builder_.call("select", {x}, {{"dim", dim}, {"index", index}});
  }
  NodeInput column(const NodeInput& x, int64_t i) {
    return builder_.call("unsqueeze", {element(x, 1, i), list({1})});
  }

  NodeInput turn(int64_t i, const NodeInput& p, const NodeInput& q, const NodeInput& units) {
    const NodeInput row = element(q, 1, i);
    const NodeInput own = column(row, i);
    const NodeInput product = column(products_, i);
    const NodeInput difference = call("div", call("sub", mean_, product), own);
    const NodeInput scale = builder_.call("add", {difference, number(1)});
    const NodeInput twice = builder_.call("mul", {product, number(2)});
    const NodeInput slope = call("add", call("mul", difference, own), twice);
    const NodeInput mean = call("add", mean_, call("mul", difference, slope));
    mean_ = call("div", call("div", mean, scale), scale);
    products_ = call("div", call("add", products_, call("mul", difference, row)), scale);
    const NodeInput moved = call("add", p, call("mul", difference, element(units, 0, i)));
    return call("div", moved, scale);
  }

  GraphBuilder& builder_;
  int64_t classes_;
  NodeInput products_ = {};  // Q p: [N, classes]
  NodeInput mean_ = {};      // p Q p: [N, 1]
};

/// The body of the loop (graph/loop.h) over `p`, with Q and the identity captured.
Graph coupling_body(int64_t classes) {
  GraphBuilder builder("body");
  builder.input("iteration", TensorType{DType::kInt64, {}});
  const NodeInput condition = builder.input("condition", TensorType{DType::kBool, {}});
  const NodeInput p = builder.input("p", TensorType{DType::kFloat32, {"rows", classes}});
  const NodeInput q = builder.input("q", TensorType{DType::kFloat32, {"rows", classes, classes}});
  const NodeInput units = builder.input("units", TensorType{DType::kFloat32, {classes, classes}});
  const NodeInput next = CouplingStep(builder, classes).next(p, q, units);
  return builder.finish({condition, next});
}

}  // namespace

NodeInput coupled_probabilities(NodeImport& node, const NodeInput& scores, int64_t classes) {
  if (classes > kMostCoupled)
    node.refuse(fmt::format("probabilities of {} classes, of more than {}", classes, kMostCoupled));
  const auto of_pairs = [&](const char* name) {
    const Tensor numbers = node.tensor(name);
    if (numbers.numel() != classes * (classes - 1) / 2)
      fail("{} numbers in {} for {} classes", numbers.numel(), name, classes);
    return node.constant_of(numbers.reshaped({numbers.numel()}));
  };
  const NodeInput scaled = node.add("mul", {scores, of_pairs("prob_a")});
  const NodeInput sums = node.add("add", {scaled, of_pairs("prob_b")});
  constexpr double kLeast = 1e-7;
  const NodeInput first = node.add("sigmoid", {node.add("neg", {sums})});
  const NodeInput pairs =
      node.add("clamp", {first, NodeImport::number_of(kLeast), NodeImport::number_of(1 - kLeast)});
  const NodeInput against = node.add("sub", {NodeImport::number_of(1), pairs});
  const NodeInput r = as_matrix(node, pairs, against, classes);
  const NodeInput transposed = node.add("permute", {r}, {{"dims", List{Value(0), Value(2), Value(1)}}});
  const NodeInput q = coupling_matrix(node, r, transposed, classes);
  const NodeInput zeros =
      node.add("mul", {node.add("select", {r}, {{"dim", 1}, {"index", 0}}), NodeImport::number_of(0)});
  const NodeInput equal = node.add("add", {zeros, NodeImport::number_of(1 / static_cast<double>(classes))});
  const NodeInput units = node.constant_of(identity(classes));
  return node.add_loop({NodeImport::integer_of(kMostSteps), NodeInput::absent(), equal, q, units}, 1,
                       coupling_body(classes));
}

}  // namespace detent
