#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <set>

#include "detent/autograd/fake_quantize.h"
#include "detent/autograd/initialize.h"
#include "detent/autograd/interpreter.h"
#include "detent/autograd/tensor_memory.h"
#include "detent/autograd/torch_outputs_for_test.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/core/error_of_for_test.h"
#include "detent/core/parallel.h"
#include "detent/graph/builder.h"
#include "detent/graph/operators.h"
#include "detent/inference/integer_executor.h"
#include "detent/models/model.h"

#if defined(__has_feature)  // clang; GCC defines the macro
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

at::Tensor random_batch(const Graph& graph, int64_t count) {
  std::vector<int64_t> shape = graph.input_shapes().begin()->second;
  shape[0] = count;
  return at::randn(shape);
}

TEST(TorchTensor, SharesMemoryAndKeepsItAlive) {
  at::Tensor view;
  {
    Tensor tensor = Tensor::from<float>({2, 2}, std::vector<float>{1, 2, 3, 4});
    view = to_torch(tensor);
    tensor.values<float>()[3] = 9;
  }
  EXPECT_EQ(view[1][1].item<float>(), 9);
  const Tensor back = from_torch(view.t());
  EXPECT_THAT(back.values<float>(), ElementsAre(1, 3, 2, 9));
}

TEST(Initialize, GivesTheNumbersOfPythonsTorch) {
  // torch.manual_seed(0); torch.nn.Linear(4, 100).weight[0, :2], .bias[0]
  seed_everything(0);
  Graph graph = build_model("toy", {1, 2, 2}, 2);
  initialize_parameters(graph);
  const auto weight = graph.node("seq_blocks_0").find_parameter("weight")->tensor.values<float>();
  EXPECT_EQ(weight[0], -0.003743410110473633F);
  EXPECT_EQ(weight[1], 0.26822179555892944F);
}

TEST(Interpreter, RunsEveryModelInTheShapesThatWereInferred) {
  for (const ModelInfo& model : all_models()) {
    Graph graph = build_model(model.name, model.sample_shape, 5);
    initialize_parameters(graph);
    Interpreter interpreter(graph);
    const auto shapes = infer_shapes(graph, 3);
    const at::Tensor output = interpreter.run(
        {random_batch(graph, 3)}, [&](const Node& node, std::string_view operand, const at::Tensor& value) {
          if (operand != "data_out_0") return;
          EXPECT_EQ(value.sizes().vec(), shapes.at(node.name).shape) << node.name;
        });
    EXPECT_THAT(output.sizes().vec(), ElementsAre(3, 5));
  }
}

TEST(Interpreter, MnistCnnIsThePublishedForwardPass) {
  seed_everything(3);
  Graph graph = build_model("mnist_cnn", {1, 28, 28}, 10);
  initialize_parameters(graph);
  const at::Tensor x = at::randn({4, 1, 28, 28});
  const auto parameter = [&](const char* node, const char* name) {
    return to_torch(graph.node(node).find_parameter(name)->tensor);
  };
  at::Tensor y = at::relu(at::conv2d(x, parameter("conv1", "weight"), parameter("conv1", "bias")));
  y = at::max_pool2d(y, 2, 2);
  y = at::max_pool2d(at::relu(at::conv2d(y, parameter("conv2", "weight"), parameter("conv2", "bias"))), 2, 2);
  y = at::relu(at::linear(y.view({-1, 800}), parameter("fc1", "weight"), parameter("fc1", "bias")));
  y = at::linear(y, parameter("fc2", "weight"), parameter("fc2", "bias")).log_softmax(1);
  EXPECT_TRUE(torch_output(graph, x).equal(y));
}

/// Every operator that a network of two inputs can hold, with attributes that differ from their defaults.
Graph all_functions() {
  GraphBuilder b("functions");
  const NodeInput x = b.input("x", {4, 8, 8});
  NodeInput y = b.call("add", {x, constant(2)});
  y = b.call("sub", {y, x});
  y = b.call("mul", {y, x});
  y = b.call("matmul", {y, x});
  y = b.call("avg_pool2d", {y},
             {{"kernel_size", 2}, {"stride", 1}, {"padding", 1}, {"count_include_pad", false}});
  y = b.call("max_pool2d", {y}, {{"kernel_size", 3}, {"stride", 2}, {"ceil_mode", true}});
  y = b.call("adaptive_max_pool2d", {y}, {{"output_size", 3}});
  y = b.call("adaptive_avg_pool2d", {y}, {{"output_size", List{Value(2), Value(3)}}});
  y = b.call("identity", {y});
  y = b.call("dropout", {y}, {{"p", 0.25}});
  y = b.call("flatten", {y}, {{"start_dim", 2}});
  y = b.batch_norm("batch_norm1d", "bn", y, 4);
  y = b.call("max_pool1d", {y}, {{"kernel_size", 2}, {"stride", 1}, {"dilation", 2}});
  y = b.call("avg_pool1d", {y}, {{"kernel_size", 2}, {"stride", 1}});
  y = b.call("adaptive_max_pool1d", {y}, {{"output_size", 2}});
  y = b.call("adaptive_avg_pool1d", {y}, {{"output_size", 2}});
  y = b.convolution("conv", y, 4, 6, {2}, {{"padding", 1}, {"groups", 2}});
  y = b.call("softmax", {y}, {{"dim", 1}});
  const NodeInput batch = b.call("size", {y, constant(0)});
  y = b.call("reshape", {y, batch, constant(-1)});
  y = b.call("log_softmax", {y});
  return b.finish(y);
}

TEST(Interpreter, EveryOperatorHasAnEvaluatorAndAgreesWithItsShapes) {
  Graph graph = all_functions();
  initialize_parameters(graph);
  const auto shapes = infer_shapes(graph, 2);
  Interpreter interpreter(graph);
  interpreter.run({random_batch(graph, 2)},
                  [&](const Node& node, std::string_view operand, const at::Tensor& value) {
                    if (operand != "data_out_0") return;
                    EXPECT_EQ(value.sizes().vec(), shapes.at(node.name).shape) << node.name;
                  });
  for (const OperatorSchema& schema : all_operators()) {
    if (schema.name == "placeholder") continue;
    EXPECT_NO_THROW(find_evaluator(schema.name)) << schema.name;
  }
}

TEST(Interpreter, UsesBatchStatisticsAndDropout) {
  Graph graph = all_functions();
  initialize_parameters(graph);
  const at::Tensor x = random_batch(graph, 8);
  const at::Tensor inference = torch_output(graph, x);
  EXPECT_TRUE(inference.equal(torch_output(graph, x)));
  Interpreter training(graph);
  EXPECT_FALSE(training.run(x).equal(training.run(x)));
  EXPECT_NE(graph.node("bn").find_parameter("running_mean")->tensor.values<float>()[0], 0);
}

TEST(Interpreter, GradientsAreThoseOfFiniteDifferences) {
  GraphBuilder b("small");
  NodeInput x = b.input("x", {1, 5, 5});
  x = b.convolution("conv", x, 1, 2, {3, 3});
  x = b.call("softmax", {x}, {{"dim", 1}});
  x = b.call("flatten", {x});
  x = b.linear("fc", x, 18, 2);
  Graph graph = b.finish(x);
  seed_everything(11);
  initialize_parameters(graph);
  const at::Tensor input = at::randn({3, 1, 5, 5});
  const auto loss = [&](Interpreter& interpreter) { return interpreter.run(input).pow(2).sum(); };
  Interpreter training(graph);
  loss(training).backward();

  for (const at::Tensor& parameter : training.trainable_parameters()) {
    at::Tensor values = parameter.detach().view({-1});
    const at::Tensor gradient = parameter.grad().view({-1});
    for (int64_t i = 0; i < values.numel(); i += 5) {
      constexpr float kStep = 1e-2F;
      const float original = values[i].item<float>();
      values[i] = original + kStep;
      const auto above = torch_output(graph, input).pow(2).sum().item<double>();
      values[i] = original - kStep;
      const auto below = torch_output(graph, input).pow(2).sum().item<double>();
      values[i] = original;
      EXPECT_NEAR((above - below) / double{2 * kStep}, gradient[i].item<double>(), 2e-2);
    }
  }
}

TEST(Interpreter, QuantizesEveryOperandOfANode) {
  seed_everything(5);
  Graph graph = build_model("toy", {1, 2, 2}, 2);
  initialize_parameters(graph);
  const at::Tensor x = at::randn({6, 1, 2, 2});
  const QuantSpec spec = parse_quant_spec_text("fixed:width=4,frac_width=2");
  Node& node = graph.node("seq_blocks_2");
  const at::Tensor plain = torch_output(graph, x);
  for (const char* operand : {"data_in_0", "weight", "bias", "data_out_0"}) {
    node.quantization = {{operand, QuantizerRef(spec)}};
    EXPECT_FALSE(torch_output(graph, x).equal(plain)) << operand;
  }

  node.quantization = {{"data_in_0", {spec}}, {"weight", {spec}}, {"bias", {spec}}, {"data_out_0", {spec}}};
  at::Tensor input;
  at::Tensor next_input;
  torch_outputs(graph, {x}, [&](const Node& seen, std::string_view operand, const at::Tensor& value) {
    if (seen.name == "seq_blocks_2" && operand == "data_in_0") input = value.clone();
    if (seen.name == "seq_blocks_3" && operand == "data_in_0") next_input = value.clone();
  });
  const auto rounded = [&](const at::Tensor& value) { return fake_quantize(value, spec); };
  const at::Tensor expected =
      rounded(at::linear(rounded(input), rounded(to_torch(node.find_parameter("weight")->tensor)),
                         rounded(to_torch(node.find_parameter("bias")->tensor))));
  EXPECT_TRUE(next_input.equal(expected));
}

TEST(Interpreter, NamesTheNodeThatFails) {
  const auto error_of = [](Graph& graph, const at::Tensor& input) -> std::string {
    return detent::error_of([&] { torch_output(graph, input); });
  };
  Graph graph = build_model("toy", {1, 2, 2}, 2);
  EXPECT_THAT(error_of(graph, at::randn({6, 1, 3, 2})),
              HasSubstr("input \"x\": got float32 of shape [6, 1, 3, 2], expected float32 [N, 1, 2, 2]"));
  graph.node("seq_blocks_2").quantization["weight"] = parse_quant_spec_text("ternary");
  EXPECT_THAT(error_of(graph, at::randn({6, 1, 2, 2})),
              HasSubstr("node \"seq_blocks_2\", operand \"weight\""));
}

TEST(FakeQuantize, GradientIsStraightThroughOrClipped) {
  const auto gradient_of = [](const char* text) {
    at::Tensor x = to_torch(Tensor::from<float>({4}, std::vector<float>{-20, 0.3F, 7, 100})).clone();
    x.set_requires_grad(true);
    fake_quantize(x, parse_quant_spec_text(text))
        .backward(to_torch(Tensor::from<float>({4}, std::vector<float>{1, 2, 3, 4})));
    const Tensor gradient = from_torch(x.grad());
    const auto values = gradient.values<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  EXPECT_THAT(gradient_of("fixed:width=8,frac_width=4"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(gradient_of("fixed:width=8,frac_width=4,gradient=clipped"), ElementsAre(0, 2, 3, 0));
}

TEST(FakeQuantize, TakesNonContiguousTensors) {
  const at::Tensor x = at::randn({3, 5});
  const QuantSpec spec = parse_quant_spec_text("fixed:width=6,frac_width=3");
  EXPECT_TRUE(fake_quantize(x.t(), spec).equal(fake_quantize(x, spec).t()));
}

TEST(IntegerExecutor, ObservesWhatTheInterpreterSees) {
  Graph graph = build_model("toy", {1, 2, 2}, 2);
  initialize_parameters(graph);
  const Tensor input = Tensor::from<float>({1, 1, 2, 2}, std::vector<float>{1, 2, 3, 4});
  std::vector<std::string> seen;
  IntegerExecutor executor;
  const Tensor output = executor.run(graph, std::span(&input, 1),
                                     {[&](const Node& node, std::string_view operand, const Tensor&) {
                                       if (operand.starts_with("data_in"))
                                         seen.push_back(node.name + "." + std::string(operand));
                                     }});
  EXPECT_EQ(output.shape(), Shape({1, 2}));
  EXPECT_THAT(seen, ElementsAre("size.data_in_0", "view.data_in_0", "seq_blocks_0.data_in_0",
                                "seq_blocks_1.data_in_0", "seq_blocks_2.data_in_0", "seq_blocks_3.data_in_0",
                                "seq_blocks_4.data_in_0", "output.data_in_0"));
}

TEST(IntegerExecutor, InsideParallelForThreadsDoNotChangeABit) {
  Graph graph = build_model("mnist_cnn", {1, 28, 28}, 10);
  initialize_parameters(graph);
  const Tensor input = from_torch(at::randn({20, 1, 28, 28}));
  IntegerExecutor executor;
  const int before = thread_count();
  std::vector<Tensor> outputs;
  for (const int threads : {1, 2, 3}) {
    set_thread_count(threads);
    at::set_num_threads(threads);
    std::vector<Tensor> at_once(3);
    parallel_for(std::ssize(at_once), 1, [&](int64_t index, int64_t /*end*/) {
      at_once[static_cast<size_t>(index)] = executor.run(graph, std::span(&input, 1));
    });
    for (Tensor& output : at_once) outputs.push_back(std::move(output));
    EXPECT_EQ(at::get_num_threads(), threads);
  }
  set_thread_count(before);
  at::set_num_threads(before);
  for (const Tensor& output : outputs) EXPECT_TRUE(output.equals(outputs.front()));
}

TEST(TensorMemory, IsAlignedAndTakenAgainByTensorsOfItsSize) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers watch the blocks of malloc";
#endif
  use_block_cache_for_tensors();
  constexpr int64_t kValues = int64_t{1} << 18;
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 32; ++i) tensors.push_back(at::empty({kValues}, at::kFloat));
  std::set<void*> holes;
  for (size_t i = 1; i < tensors.size(); i += 2) {
    holes.insert(tensors[i].data_ptr());
    tensors[i] = at::Tensor();
  }
  size_t taken_again = 0;
  for (size_t i = 1; i < tensors.size(); i += 2) {
    tensors[i] = at::empty({kValues}, at::kFloat);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensors[i].data_ptr()) % 64, 0U);
    taken_again += holes.count(tensors[i].data_ptr());
  }
  EXPECT_EQ(taken_again, holes.size());
  EXPECT_EQ(at::empty({0}, at::kFloat).numel(), 0);
  EXPECT_THROW(at::empty({int64_t{1} << 60}, at::kFloat), c10::Error);
}

}  // namespace
}  // namespace detent
