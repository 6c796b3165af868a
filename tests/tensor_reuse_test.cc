#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>

#include <cstring>
#include <limits>
#include <map>

#include "detent/execution/interpreter.h"
#include "detent/execution/torch_tensor.h"
#include "detent/graph/builder.h"
#include "detent/graph/operators.h"

// In inference results take the memory of inputs that nobody reads any more, and max pooling is a kernel of
// Detent's: neither may show in a bit of what a network computes.

namespace detent {
namespace {

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && std::memcmp(a.contiguous().data_ptr(), b.contiguous().data_ptr(),
                                               static_cast<size_t>(a.numel()) * sizeof(float)) == 0;
}

/// Where each node's result lies.
std::map<std::string, const void*> memory_of_results(const Graph& graph, const at::Tensor& input) {
  std::map<std::string, const void*> memory;
  Interpreter(graph).outputs({input},
                             [&](const Node& node, std::string_view operand, const at::Tensor& value) {
                               if (operand == "data_out_0") memory[node.name] = value.data_ptr();
                             });
  return memory;
}

TEST(TensorReuse, ResultsTakeTheMemoryOfInputsThatAreReadNoMore) {
  GraphBuilder builder("chain");
  NodeInput x = builder.input("x", {3, 8});
  x = builder.call("sigmoid", {x});
  x = builder.call("relu", {x});
  const NodeInput y = builder.call("tanh", {x});
  x = builder.call("add", {x, y});
  const Graph graph = builder.finish(builder.call("relu6", {x}));
  const at::Tensor input = at::randn({2, 3, 8});
  const auto memory = memory_of_results(graph, input);
  EXPECT_EQ(memory.at("relu"), memory.at("sigmoid"));
  EXPECT_NE(memory.at("tanh"), memory.at("relu"));
  EXPECT_EQ(memory.at("add"), memory.at("relu"));
  EXPECT_EQ(memory.at("relu6"), memory.at("add"));
}

TEST(TensorReuse, WhatOthersHoldStays) {
  GraphBuilder builder("shared");
  const NodeInput x = builder.input("x", {4, 6});
  const NodeInput of_input = builder.call("relu", {x});
  const NodeInput weight = builder.parameter("weight", {4, 6});
  const NodeInput of_weight = builder.call("relu", {weight});
  const NodeInput moved = builder.call("sub", {x, of_weight});
  const NodeInput flat = builder.call("flatten", {moved});
  const NodeInput of_view = builder.call("relu", {flat});
  const NodeInput twice = builder.call("add", {moved, moved});
  Graph graph = builder.finish({of_input, of_view, twice, moved});
  const at::Tensor input = at::randn({2, 4, 6});
  const at::Tensor values = at::randn({4, 6});
  Tensor& parameter = graph.node("weight").parameters.front().second->tensor;
  parameter = from_torch(values.clone());

  const at::Tensor before = input.clone();
  const at::Tensor difference = before - at::relu(values);
  std::map<std::string, at::Tensor> held;
  Interpreter interpreter(graph);
  for (int run = 0; run < 2; ++run) {
    const auto outputs = interpreter.outputs(
        {input}, [&](const Node& node, std::string_view operand, const at::Tensor& value) {
          held[node.name + "." + std::string(operand)] = value;
        });
    EXPECT_TRUE(same_bits(input, before));
    EXPECT_TRUE(same_bits(to_torch(parameter), values));
    EXPECT_TRUE(same_bits(outputs[0], at::relu(before)));
    EXPECT_TRUE(same_bits(outputs[1], at::relu(difference).flatten(1)));
    EXPECT_TRUE(same_bits(outputs[2], difference + difference));
    EXPECT_TRUE(same_bits(outputs[3], difference));
    EXPECT_TRUE(same_bits(held.at("relu_2.data_in_0"), difference.flatten(1)));
  }
}

/// 3 x 9 x 11, with what comparisons treat differently.
at::Tensor image_with_special_values() {
  at::Tensor x = at::randn({2, 3, 9, 11});
  auto* const values = x.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (i % 7 == 0) values[i] = i % 2 == 0 ? 0.0F : -0.0F;
    if (i % 41 == 0) values[i] = std::numeric_limits<float>::quiet_NaN();
    if (i >= 200 && i < 330) values[i] = -std::numeric_limits<float>::infinity();
    if (i >= 330 && i < 400) values[i] = i % 2 == 0 ? -0.0F : 0.0F;
  }
  return x;
}

TEST(MaxPooling, IsLibtorchsToTheLastBit) {
  struct Case {
    std::vector<int64_t> kernel, stride, padding, dilation;
    bool ceil_mode;
  };
  const std::vector<Case> cases = {
      {{2, 2}, {2, 2}, {0, 0}, {1, 1}, false}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, false},
      {{3, 3}, {2, 2}, {0, 0}, {1, 1}, true},  {{3, 2}, {1, 1}, {1, 1}, {1, 1}, false},
      {{5, 5}, {1, 1}, {2, 2}, {1, 1}, false}, {{2, 3}, {3, 3}, {0, 1}, {2, 3}, true},
      {{4, 4}, {2, 3}, {2, 2}, {2, 1}, true},  {{9, 11}, {1, 1}, {0, 0}, {1, 1}, false},
  };
  const at::Tensor x = image_with_special_values();
  for (const Case& c : cases) {
    const auto list = [](const std::vector<int64_t>& numbers) {
      return List{Value(numbers[0]), Value(numbers[1])};
    };
    GraphBuilder builder("pool");
    const NodeInput input = builder.input("x", {3, 9, 11});
    const Graph graph = builder.finish(builder.call("max_pool2d", {input},
                                                    {{"kernel_size", list(c.kernel)},
                                                     {"stride", list(c.stride)},
                                                     {"padding", list(c.padding)},
                                                     {"dilation", list(c.dilation)},
                                                     {"ceil_mode", c.ceil_mode}}));
    Interpreter interpreter(graph);
    const at::Tensor expected = at::max_pool2d(x, c.kernel, c.stride, c.padding, c.dilation, c.ceil_mode);
    EXPECT_TRUE(same_bits(interpreter.run(x), expected)) << c.kernel[0] << " x " << c.kernel[1];
    const at::Tensor last = x.contiguous(at::MemoryFormat::ChannelsLast);
    EXPECT_TRUE(same_bits(interpreter.run(last), expected)) << "channels last";
  }
}

}  // namespace
}  // namespace detent
