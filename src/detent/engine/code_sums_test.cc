#include <limits>

#include "detent/engine/float_networks_for_test.h"

// Products of integers with constant weights, as dynamically quantized models have them: by the kernels of
// layers of codes, and by the plain reference.

namespace detent {
namespace {

class CodeSumsOfEngine : public FloatNetworkTest {
 protected:
  void expect_equal(const Graph& graph, std::span<const Tensor> inputs) {
    const std::vector<Tensor> wanted = IntegerProgram(graph).run(inputs);
    for (const std::string& target : engine_targets()) {
      set_engine_target(target);
      const FastProgram program(graph);
      for (const StepProfile& step : program.profile(inputs, 1)) {
        ++kernels_[step.kernel.substr(0, step.kernel.find(' '))];
        if (step.kernel == "float") floats_ += step.nodes + " ";
      }
      for (const int threads : {1, 3}) {
        set_thread_count(threads);
        const std::vector<Tensor> got = program.run(inputs);
        ASSERT_EQ(got.size(), wanted.size());
        for (size_t i = 0; i < got.size(); ++i) ASSERT_TRUE(got[i].equals(wanted[i])) << target << ", " << i;
      }
    }
  }

  KernelCounts kernels_;
  std::string floats_;  // nodes without kernels
};

/// Writes a network of nodes that are named after their operators.
class CodeNetwork {
 public:
  explicit CodeNetwork(Draw& draw) : draw_(draw) {}

  NodeInput input(const Tensor& tensor) {
    graph_.add_input(fmt::format("x{}", inputs.size()), TensorType{tensor.dtype(), dimensions(tensor)});
    inputs.push_back(tensor);
    return NodeInput::of(fmt::format("x{}", inputs.size() - 1));
  }
  NodeInput call(const std::string& op, std::vector<NodeInput> operands, Table attributes = {}) {
    Node node;
    node.name = fmt::format("{}_{}", op, graph_.nodes().size());
    node.op = op;
    node.inputs = std::move(operands);
    node.attributes = std::move(attributes);
    return NodeInput::of(graph_.add(std::move(node)).name);
  }
  NodeInput constant(const Tensor& tensor) {
    Node node;
    node.name = fmt::format("constant_{}", graph_.nodes().size());
    node.target = node.name;
    node.op = "get_attr";
    node.mase_type = MaseType::kGetAttr;
    node.parameters.emplace_back("value", Parameter{.tensor = tensor, .trainable = false});
    return NodeInput::of(graph_.add(std::move(node)).name);
  }
  Graph finish(std::vector<NodeInput> outputs) {
    Node node;
    node.name = "output";
    node.op = "output";
    node.mase_type = MaseType::kOutput;
    node.inputs = std::move(outputs);
    graph_.add(std::move(node));
    verify(graph_);
    return std::move(graph_);
  }

  /// Integers of a type of 8 bits, all of them or few.
  Tensor integers(const Shape& shape, DType dtype, int64_t most = 255) {
    Tensor result(dtype, shape);
    const int64_t low = dtype == DType::kInt8 ? -128 : 0;
    for (auto& byte : result.bytes())
      byte = static_cast<std::byte>(low + 128 + std::clamp<int64_t>(draw_.of(-most, most), -128, 127));
    return result;
  }

  Tensor biases(int64_t outputs) {
    Tensor result(DType::kInt32, {outputs});
    for (int32_t& bias : result.values<int32_t>()) bias = static_cast<int32_t>(draw_.of(-9999, 9999));
    return result;
  }

  std::vector<Tensor> inputs;

 private:
  static std::vector<Dimension> dimensions(const Tensor& tensor) {
    return {tensor.shape().begin(), tensor.shape().end()};
  }

  Draw& draw_;
  Graph graph_{"codes"};
};

struct Codes {
  NodeInput codes;
  NodeInput zero;
  std::optional<NodeInput> scale;  // of codes that cover a range
};

Codes drawn_codes(Draw& draw, CodeNetwork& n, const Shape& shape) {
  if (draw.of(0, 3) > 0) {
    NodeInput x = n.input(draw.tensor(shape));
    if (draw.coin()) x = n.call("tanh", {x});
    Codes result{n.call("dynamic_quantize_linear", {x}), {}, {}};
    result.zero = result.scale.emplace(result.codes);
    result.zero.result = 2;
    result.scale->result = 1;
    return result;
  }
  const DType dtype = draw.coin() ? DType::kUInt8 : DType::kInt8;
  const NodeInput codes = n.input(n.integers(shape, dtype));
  if (draw.coin()) return {codes, NodeInput::of_constant(Value(draw.of(0, 127))), {}};
  return {codes, n.input(n.integers({}, dtype)), {}};
}

NodeInput drawn_zeros(Draw& draw, CodeNetwork& n, DType dtype, int64_t outputs) {
  if (draw.of(0, 2) == 0) return NodeInput::absent();
  return n.constant(n.integers(draw.coin() ? Shape{} : Shape{outputs}, dtype, draw.coin() ? 9 : 255));
}

/// Sums as integers, or as floats, with numbers of the channels before and after.
NodeInput finished(Draw& draw, CodeNetwork& n, const Codes& x, NodeInput sums, const Shape& channels) {
  if (draw.coin()) {
    NodeInput bias = n.input(draw.tensor(channels, 100));
    if (x.scale && draw.coin()) bias = n.call("div", {bias, *x.scale});
    sums = n.call("add", {sums, n.call("cast", {n.call("floor", {bias})}, {{"dtype", "int32"}})});
  }
  if (draw.of(0, 4) == 0) return sums;
  NodeInput y = n.call("cast", {sums}, {{"dtype", "float32"}});
  const NodeInput unit = draw.coin() ? n.constant(draw.tensor(channels)) : NodeInput::of_constant(Value(0.3));
  if (x.scale)
    y = n.call("mul", {y, draw.coin() ? n.call("mul", {*x.scale, unit}) : *x.scale});
  else if (draw.coin())
    y = n.call("mul", {unit, y});
  return draw.coin() ? n.call("tanh", {y}) : y;
}

TEST_F(CodeSumsOfEngine, OfConvolutionsAreThoseOfTheReference) {
  for (uint32_t seed = 0; seed < 240; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    CodeNetwork n(draw);
    const auto dims = static_cast<size_t>(draw.among({1, 2, 2, 2, 3}));
    const bool is_deep = draw.of(0, 3) == 0;
    const int64_t groups = is_deep ? draw.among({3, 40}) : draw.among({1, 1, 1, 2});
    const int64_t in = is_deep ? groups : groups * draw.among({1, 5, 32, 70});
    const int64_t out = is_deep ? groups : groups * draw.among({1, 18, 40});
    Shape x = {draw.of(1, 2), in};
    Shape weight = {out, in / groups};
    Shape channels = {1, out};
    List stride;
    List padding;
    for (size_t d = 0; d < dims; ++d) {
      x.push_back(draw.of(5, 9));
      weight.push_back(draw.of(1, 3));
      channels.push_back(1);
      stride.push_back(Value(draw.of(1, 2)));
      padding.push_back(Value(draw.of(0, 2)));
    }
    const Codes codes = drawn_codes(draw, n, x);
    const DType dtype = draw.coin() ? DType::kUInt8 : DType::kInt8;
    std::vector<NodeInput> operands = {codes.codes,
                                       n.constant(n.integers(weight, dtype, draw.among({1, 20, 255}))),
                                       codes.zero, drawn_zeros(draw, n, dtype, out)};
    if (draw.of(0, 3) == 0) operands.push_back(n.constant(n.biases(out)));
    while (operands.back().is_absent()) operands.pop_back();
    const NodeInput sums =
        n.call("integer_convolution", operands,
               {{"stride", std::move(stride)}, {"padding", std::move(padding)}, {"groups", groups}});
    std::vector<NodeInput> results = {finished(draw, n, codes, sums, channels)};
    if (codes.scale && draw.of(0, 3) == 0) results.push_back(codes.codes);
    const Graph graph = n.finish(std::move(results));
    expect_equal(graph, n.inputs);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels_["convolution"], 100);
  EXPECT_GT(kernels_["depthwise"], 20);
  EXPECT_GT(kernels_["quantize"], 100);
}

TEST_F(CodeSumsOfEngine, OfMatricesAreThoseOfTheReference) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    CodeNetwork n(draw);
    const int64_t depth = draw.among({3, 64, 130});
    const int64_t out = draw.among({1, 17, 90});
    const Codes codes =
        drawn_codes(draw, n, draw.coin() ? Shape{draw.of(1, 9), depth} : Shape{2, draw.of(1, 9), depth});
    const DType dtype = draw.coin() ? DType::kUInt8 : DType::kInt8;
    std::vector<NodeInput> operands = {codes.codes,
                                       n.constant(n.integers({depth, out}, dtype, draw.among({1, 20, 255}))),
                                       codes.zero, drawn_zeros(draw, n, dtype, out)};
    if (operands.back().is_absent()) operands.pop_back();
    const Graph graph = n.finish({finished(draw, n, codes, n.call("integer_matmul", operands), Shape{out})});
    expect_equal(graph, n.inputs);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels_["linear"], 60);
}

/// Ranges that are no numbers, and values so small that their scale is 0.
TEST_F(CodeSumsOfEngine, OfRangesWithoutScalesAreThoseOfTheReference) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float extreme : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 1e-45F, 0.0F}) {
    SCOPED_TRACE(extreme);
    Draw draw(1);
    CodeNetwork n(draw);
    Tensor x(DType::kFloat32, {2, 40});
    x.values<float>()[7] = extreme;
    NodeInput scale = n.call("dynamic_quantize_linear", {n.input(x)});
    const NodeInput codes = scale;
    NodeInput zero = scale;
    scale.result = 1;
    zero.result = 2;
    const NodeInput weight = n.constant(n.integers({40, 5}, DType::kInt8));
    const NodeInput sums = n.call("integer_matmul", {codes, weight, zero});
    const Graph graph = n.finish({n.call("cast", {sums}, {{"dtype", "float32"}}), zero});
    expect_equal(graph, n.inputs);
  }
  EXPECT_EQ(floats_, "");
}

}  // namespace
}  // namespace detent
