#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "detent/autograd/initialize.h"
#include "detent/autograd/torch_outputs_for_test.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/core/error_of_for_test.h"
#include "detent/core/parallel.h"
#include "detent/formats/kernel_environment.h"
#include "detent/graph/builder.h"
#include "detent/graph/operator_arguments.h"
#include "detent/inference/float_node.h"
#include "detent/inference/float_nodes.h"

// Random recurrent layers by the layer float32 against those by libtorch.

namespace detent {
namespace {

class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) {}
  int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution(low, high)(engine_); }
  bool coin() { return integer(0, 1) == 1; }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return *(list.begin() + integer(0, std::ssize(list) - 1));
  }

 private:
  std::mt19937 engine_;
};

struct Layer {
  Graph graph{"layer"};
  std::vector<at::Tensor> inputs;
  std::vector<FloatFlow> flows;  // the same
};

/// Sizes that decide the shapes of a layer's inputs.
struct Sizes {
  int64_t gates;
  int64_t directions;
  int64_t hidden;
  int64_t samples;
  int64_t steps;
  int64_t width;
};

Sizes draw_sizes(Draw& draw, const std::string& op) {
  return {.gates = op == "rnn"   ? 1
                   : op == "gru" ? 3
                                 : 4,
          .directions = draw.integer(1, 2),
          .hidden = draw.one_of<int64_t>({1, 3, 16, 37, 50}),
          .samples = draw.one_of<int64_t>({1, 2, 5, 8, 19}),
          .steps = draw.one_of<int64_t>({0, 1, 2, 7}),
          .width = draw.one_of<int64_t>({1, 4, 33})};
}

/// Names with all, some or none of their numbers.
std::string draw_functions(Draw& draw, size_t count) {
  constexpr auto kNames = enum_names(RecurrentActivation::Function());
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    const auto index = draw.integer(0, std::ssize(kNames) - 1);
    text += std::string(i == 0 ? "" : " ") + kNames[static_cast<size_t>(index)];
    const auto most =
        static_cast<int64_t>(activation_defaults(static_cast<RecurrentActivation::Function>(index)).count);
    for (int64_t number = draw.integer(0, most); number > 0; --number)
      text += fmt::format(":{}", draw.one_of({0.3, 0.7, 0.1}));
  }
  return text;
}

Table draw_attributes(Draw& draw, const std::string& op, const Sizes& sizes) {
  const size_t functions = op == "rnn" ? 1 : op == "gru" ? 2 : 3;
  Table attributes = {{"hidden_size", sizes.hidden}, {"batch_first", draw.coin()}};
  attributes["direction"] = sizes.directions == 2 ? "bidirectional" : draw.one_of({"forward", "reverse"});
  // Functions without a bound let states grow from step to step.
  const bool other_functions = sizes.directions == 2 || draw.coin();
  if (other_functions)
    attributes["activations"] = draw_functions(draw, functions * static_cast<size_t>(sizes.directions));
  if (other_functions || draw.coin()) attributes["clip"] = draw.one_of({0.1, 0.5, 2.0});
  if (op == "gru") attributes["linear_before_reset"] = draw.coin();
  if (op == "lstm") attributes["input_forget"] = draw.coin();
  return attributes;
}

at::Tensor draw_lengths(Draw& draw, const Sizes& sizes) {
  return at::randint(-1, sizes.steps + 2, {sizes.samples}, draw.one_of({at::kInt, at::kLong}));
}

Layer draw_layer(Draw& draw, const std::string& op) {
  const Sizes s = draw_sizes(draw, op);
  const Table attributes = draw_attributes(draw, op, s);
  const bool batch_first = *attributes.find("batch_first")->get_if<bool>();
  const Shape state =
      batch_first ? Shape{s.samples, s.directions, s.hidden} : Shape{s.directions, s.samples, s.hidden};
  const double scale = 0.7 / std::sqrt(static_cast<double>(s.hidden));
  std::vector<at::Tensor> operands = {
      at::randn(batch_first ? Shape{s.samples, s.steps, s.width} : Shape{s.steps, s.samples, s.width}),
      at::randn({s.directions, s.gates * s.hidden, s.width}) * scale,
      at::randn({s.directions, s.gates * s.hidden, s.hidden}) * scale,
      at::randn({s.directions, 2 * s.gates * s.hidden}) * scale,
      draw_lengths(draw, s),
      at::randn(state)};
  if (op == "lstm") {
    operands.push_back(at::randn(state));
    operands.push_back(at::randn({s.directions, 3 * s.hidden}));
  }
  Layer layer;
  GraphBuilder builder(op);
  std::vector<NodeInput> inputs;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i > 2 && draw.coin()) {
      inputs.push_back(NodeInput::absent());
      layer.flows.push_back({{}, {}, true});
      continue;
    }
    const Tensor operand = from_torch(operands[i]);
    inputs.push_back(
        builder.input(fmt::format("x{}", i),
                      TensorType{operand.dtype(), {operand.shape().begin(), operand.shape().end()}}));
    layer.inputs.push_back(operands[i]);
    layer.flows.push_back({operand});
  }
  const NodeInput first = builder.layer(op, "layer", inputs, {}, attributes);
  std::vector<NodeInput> results = {first, first};
  if (op == "lstm") results.push_back(first);
  for (size_t i = 0; i < results.size(); ++i) results[i].result = i;
  layer.graph = builder.finish(results);
  return layer;
}

template <class Test>
void for_random_layers(int count, Test test) {
  for (const char* op : {"rnn", "gru", "lstm"}) {
    for (int i = 0; i < count; ++i) {
      SCOPED_TRACE(fmt::format("{} {}", op, i));
      seed_everything(static_cast<uint64_t>(i));
      Draw draw(static_cast<unsigned>(i));
      test(draw_layer(draw, op));
    }
  }
}

std::vector<Tensor> portable_results(const Layer& layer) {
  std::vector<Tensor> results;
  for (const FloatFlow& flow : FloatNodes().results(layer.graph.node("layer"), layer.flows))
    results.push_back(flow.tensor);
  return results;
}

TEST(Float32Recurrent, GivesWhatLibtorchGives) {
  for_random_layers(150, [](const Layer& layer) {
    const std::vector<at::Tensor> expected = torch_outputs(layer.graph, layer.inputs);
    const std::vector<Tensor> results = portable_results(layer);
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < results.size(); ++i) {
      ASSERT_EQ(results[i].shape(), from_torch(expected[i]).shape());
      const double largest = expected[i].numel() == 0 ? 0 : expected[i].abs().max().item<double>();
      EXPECT_TRUE(at::allclose(to_torch(results[i]), expected[i], 1e-5, 1e-5 * std::max(1.0, largest))) << i;
    }
  });
}

TEST(Float32Recurrent, GivesTheSameBitsWithEveryTargetAndNumberOfThreads) {
  const int threads = thread_count();
  for_random_layers(40, [](const Layer& layer) {
    set_thread_count(1);
    const std::vector<Tensor> expected = portable_results(layer);
    set_thread_count(3);
    for (const std::string& target : simd_targets()) {
      set_simd_target(target, "test");
      const std::vector<Tensor> results = portable_results(layer);
      for (size_t i = 0; i < results.size(); ++i)
        EXPECT_TRUE(results[i].equals(expected[i])) << target << " " << i;
    }
    set_simd_target(simd_targets().front(), "test");
  });
  set_thread_count(threads);
}

TEST(Float32Recurrent, NamesTheNodeWhoseInputsDoNotFit) {
  Draw draw(0);
  Layer layer = draw_layer(draw, "lstm");
  layer.flows[1].tensor = Tensor(DType::kFloat32, {1, 2, 3});
  EXPECT_THAT(error_of([&] { portable_results(layer); }),
              testing::StartsWith("node \"layer\" (lstm): input 1"));
}

}  // namespace
}  // namespace detent
