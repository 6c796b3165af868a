// Built-in networks against the same computed by direct calls of libtorch, with the names that published
// weights have, and against those weights where the machine has them.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/slice.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "detent/autograd/initialize.h"
#include "detent/autograd/interpreter.h"
#include "detent/autograd/torch_outputs_for_test.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/datasets/published_data_for_test.h"
#include "detent/engine/fast_executor.h"
#include "detent/evaluation/evaluate.h"
#include "detent/graph/graph_parameters.h"
#include "detent/graph_files/graph_file.h"
#include "detent/models/model.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

/// The parameters of a network by the names of its state_dict, and the layers that read them.
class Reference {
 public:
  explicit Reference(const Graph& graph) : state_(state_dict(graph)) {}

  at::Tensor parameter(const std::string& name) const {
    for (const auto& [key, tensor] : state_) {
      if (key == name) return to_torch(tensor);
    }
    ADD_FAILURE() << "no parameter " << name;
    return {};
  }
  bool has(const std::string& name) const {
    return std::ranges::find(state_, name, &StateDict::value_type::first) != state_.end();
  }
  at::Tensor convolution(const std::string& name, const at::Tensor& x, int64_t stride = 1,
                         int64_t padding = 0, int64_t groups = 1) const {
    const bool bias = has(name + ".bias");
    return at::conv2d(x, parameter(name + ".weight"), bias ? parameter(name + ".bias") : at::Tensor(), stride,
                      padding, 1, groups);
  }
  at::Tensor linear(const std::string& name, const at::Tensor& x) const {
    return at::linear(x, parameter(name + ".weight"), parameter(name + ".bias"));
  }
  /// Batch norm in inference, along dimension 1.
  at::Tensor norm(const std::string& name, const at::Tensor& x) const {
    std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
    shape[1] = -1;
    const auto channels = [&](const char* part) { return parameter(name + part).view(shape); };
    return (x - channels(".running_mean")) / (channels(".running_var") + 1e-5).sqrt() * channels(".weight") +
           channels(".bias");
  }
  at::Tensor layer_norm(const std::string& name, const at::Tensor& x) const {
    return at::layer_norm(x, {x.size(-1)}, parameter(name + ".weight"), parameter(name + ".bias"), 1e-6);
  }

 private:
  StateDict state_;
};

at::Tensor cifar_resnet(const Reference& p, at::Tensor x, int blocks) {
  x = p.norm("bn1", p.convolution("conv1", x, 1, 1)).relu();
  for (int stage = 1; stage <= 3; ++stage) {
    for (int block = 0; block < blocks; ++block) {
      const std::string name = fmt::format("layer{}.{}.", stage, block);
      const bool narrows = stage > 1 && block == 0;
      at::Tensor y = p.convolution(name + "conv1", x, narrows ? 2 : 1, 1);
      y = p.convolution(name + "conv2", p.norm(name + "bn1", y).relu(), 1, 1);
      if (narrows) {
        x = at::slice(at::slice(x, 2, 0, {}, 2), 3, 0, {}, 2);
        x = at::constant_pad_nd(x, {0, 0, 0, 0, x.size(1) / 2, x.size(1) / 2});
      }
      x = (p.norm(name + "bn2", y) + x).relu();
    }
  }
  return p.linear("linear", x.mean({2, 3}));
}

at::Tensor resnet(const Reference& p, at::Tensor x, const std::vector<int>& blocks) {
  x = at::max_pool2d(p.norm("bn1", p.convolution("conv1", x, 2, 3)).relu(), 3, 2, 1);
  for (size_t stage = 0; stage < 4; ++stage) {
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::string name = fmt::format("layer{}.{}.", stage + 1, block);
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      const bool bottleneck = p.has(name + "conv3.weight");
      at::Tensor y = p.norm(name + "bn1", bottleneck ? p.convolution(name + "conv1", x)
                                                     : p.convolution(name + "conv1", x, stride, 1));
      y = p.norm(name + "bn2", p.convolution(name + "conv2", y.relu(), bottleneck ? stride : 1, 1));
      if (bottleneck) y = p.norm(name + "bn3", p.convolution(name + "conv3", y.relu()));
      if (p.has(name + "downsample.0.weight")) {
        x = p.norm(name + "downsample.1", p.convolution(name + "downsample.0", x, stride));
      }
      x = (x + y).relu();
    }
  }
  return p.linear("fc", x.mean({2, 3}));
}

at::Tensor mobilenet_v2(const Reference& p, at::Tensor x) {
  const auto activated = [&](const std::string& name, const at::Tensor& input, int64_t stride = 1,
                             int64_t padding = 0, int64_t groups = 1) {
    return at::clamp(p.norm(name + ".1", p.convolution(name + ".0", input, stride, padding, groups)), 0, 6);
  };
  x = activated("features.0", x, 2, 1);
  for (int i = 1; i <= 17; ++i) {
    const std::string name = fmt::format("features.{}.conv.", i);
    const bool narrows = i == 2 || i == 4 || i == 7 || i == 14;
    at::Tensor y = i == 1 ? x : activated(name + "0", x);
    y = activated(name + (i == 1 ? "0" : "1"), y, narrows ? 2 : 1, 1, y.size(1));
    y = p.norm(name + (i == 1 ? "2" : "3"), p.convolution(name + (i == 1 ? "1" : "2"), y));
    x = !narrows && x.size(1) == y.size(1) ? x + y : y;
  }
  return p.linear("classifier.1", activated("features.18", x).mean({2, 3}));
}

at::Tensor vgg7(const Reference& p, at::Tensor x) {
  for (const int first : {0, 7, 14}) {
    for (const int i : {first, first + 3}) {
      x = p.convolution(fmt::format("feature_layers.{}", i), x, 1, 1);
      x = p.norm(fmt::format("feature_layers.{}", i + 1), x).relu();
    }
    x = at::max_pool2d(x, 2);
  }
  x = p.linear("classifier.0", x.flatten(1)).relu();
  return p.linear("last_layer", p.linear("classifier.2", x).relu());
}

at::Tensor lenet5(const Reference& p, at::Tensor x) {
  x = at::avg_pool2d(at::tanh(p.convolution("conv1", x, 1, 2)), 2);
  x = at::avg_pool2d(at::tanh(p.convolution("conv2", x)), 2);
  x = at::tanh(p.linear("fc1", x.flatten(1)));
  return p.linear("fc3", at::tanh(p.linear("fc2", x)));
}

/// A sequence whose layers are known by their parameters; ReLUs fill the numbers between.
at::Tensor jsc(const Reference& p, const std::string& name, at::Tensor x, int length) {
  for (int i = 0; i < length; ++i) {
    const std::string layer = fmt::format("{}.{}", name, i);
    if (p.has(layer + ".running_mean")) {
      x = p.norm(layer, x);
    } else if (p.has(layer + ".weight")) {
      x = p.linear(layer, x);
    } else {
      x = x.relu();
    }
  }
  return x;
}

/// Layers without biases, with a norm after each.
at::Tensor linear_and_norm(const Reference& p, const at::Tensor& x, int index) {
  const at::Tensor sums = at::linear(x, p.parameter(fmt::format("fc{}.weight", index)));
  return p.norm(fmt::format("bn{}", index), sums);
}

at::Tensor lfc(const Reference& p, at::Tensor x) {
  x = x.flatten(1);
  for (int i = 1; i <= 5; ++i) x = linear_and_norm(p, x, i);
  return at::log_softmax(x, 1);
}

at::Tensor cnv(const Reference& p, at::Tensor x) {
  for (int i = 1; i <= 6; ++i) {
    x = p.norm(fmt::format("bn{}", i), p.convolution(fmt::format("conv{}", i), x));
    if (i == 2 || i == 4) x = at::max_pool2d(x, 2);
  }
  x = x.flatten(1);
  for (int i = 7; i <= 9; ++i) x = linear_and_norm(p, x, i);
  return x;
}

at::Tensor digits_lfc(const Reference& p, at::Tensor x) {
  x = p.norm("bn0", x.flatten(1));
  return p.linear("fc3", linear_and_norm(p, linear_and_norm(p, x, 1), 2));
}

at::Tensor attention(const Reference& p, const std::string& name, const at::Tensor& x, int64_t heads) {
  const int64_t width = x.size(-1);
  const int64_t head_width = width / heads;
  const at::Tensor qkv = p.linear(name + "qkv", x);
  std::vector<at::Tensor> results;
  for (int64_t head = 0; head < heads; ++head) {
    const auto part = [&](int64_t i) { return qkv.narrow(-1, i * width + head * head_width, head_width); };
    const at::Tensor weights = at::softmax(
        at::matmul(part(0), part(1).transpose(1, 2)) / std::sqrt(static_cast<double>(head_width)), -1);
    results.push_back(at::matmul(weights, part(2)));
  }
  return p.linear(name + "proj", at::cat(results, -1));
}

at::Tensor vit(const Reference& p, at::Tensor x, int64_t patch, int depth, int64_t heads) {
  x = p.convolution("patch_embed.proj", x, patch).flatten(2).transpose(1, 2);
  const at::Tensor token = p.parameter("cls_token");
  x = at::cat({token.expand({x.size(0), 1, token.size(2)}), x}, 1) + p.parameter("pos_embed");
  for (int i = 0; i < depth; ++i) {
    const std::string name = fmt::format("blocks.{}.", i);
    x = x + attention(p, name + "attn.", p.layer_norm(name + "norm1", x), heads);
    const at::Tensor y = p.linear(name + "mlp.fc1", p.layer_norm(name + "norm2", x));
    x = x + p.linear(name + "mlp.fc2", y * 0.5 * (1 + (y / std::sqrt(2.0)).erf()));
  }
  return p.linear("head", p.layer_norm("norm", x).select(1, 0));
}

struct ModelCase {
  std::string model;
  Shape sample_shape;
  at::Tensor (*reference)(const Reference& parameters, at::Tensor x);
};

const std::vector<ModelCase>& model_cases() {
  using R = const Reference&;
  static const std::vector<ModelCase> cases = {
      {"resnet20", {3, 32, 32}, [](R p, at::Tensor x) { return cifar_resnet(p, x, 3); }},
      {"resnet32", {3, 16, 16}, [](R p, at::Tensor x) { return cifar_resnet(p, x, 5); }},
      {"resnet44", {3, 16, 16}, [](R p, at::Tensor x) { return cifar_resnet(p, x, 7); }},
      {"resnet56", {3, 16, 16}, [](R p, at::Tensor x) { return cifar_resnet(p, x, 9); }},
      {"resnet18",
       {3, 64, 64},
       [](R p, at::Tensor x) {
         return resnet(p, x, {2, 2, 2, 2});
       }},
      {"resnet34",
       {3, 64, 64},
       [](R p, at::Tensor x) {
         return resnet(p, x, {3, 4, 6, 3});
       }},
      {"resnet50",
       {3, 64, 64},
       [](R p, at::Tensor x) {
         return resnet(p, x, {3, 4, 6, 3});
       }},
      {"mobilenet_v2", {3, 64, 64}, mobilenet_v2},
      {"vgg7", {3, 32, 32}, vgg7},
      {"lenet5", {1, 28, 28}, lenet5},
      {"jsc_tiny", {16}, [](R p, at::Tensor x) { return jsc(p, "seq_blocks", x, 4); }},
      {"jsc_toy", {16}, [](R p, at::Tensor x) { return jsc(p, "seq_blocks", x, 11); }},
      {"jsc_s", {16}, [](R p, at::Tensor x) { return jsc(p, "module_list", x, 14); }},
      {"jsc_trt", {16}, [](R p, at::Tensor x) { return jsc(p, "seq_blocks", x, 15); }},
      {"digits_logicnet", {1, 8, 8}, [](R p, at::Tensor x) { return jsc(p, "layers", x.flatten(1), 11); }},
      {"mnist_logicnet", {1, 28, 28}, [](R p, at::Tensor x) { return jsc(p, "layers", x.flatten(1), 14); }},
      {"lfc", {1, 28, 28}, lfc},
      {"cnv", {3, 32, 32}, cnv},
      {"digits_lfc", {1, 8, 8}, digits_lfc},
      {"vit_cifar", {3, 32, 32}, [](R p, at::Tensor x) { return vit(p, x, 4, 6, 4); }},
      {"vit_tiny", {3, 32, 48}, [](R p, at::Tensor x) { return vit(p, x, 16, 12, 3); }},
  };
  return cases;
}

/// Running statistics and norms that differ from their neutral initial values.
void disturb_norms(Graph& graph) {
  for (Node& node : graph.nodes()) {
    if (node.op.find("norm") == std::string::npos) continue;
    for (auto& [name, parameter] : node.parameters) {
      const at::Tensor values = to_torch(parameter->tensor);
      if (name == "running_var" || name == "weight") {
        values.uniform_(0.5, 1.5);
      } else {
        values.normal_(0, 0.1);
      }
    }
  }
}

class BuiltinModel : public testing::TestWithParam<ModelCase> {};

TEST_P(BuiltinModel, ComputesWhatDirectCallsDo) {
  const ModelCase& c = GetParam();
  seed_everything(3);
  Graph graph = build_model(c.model, c.sample_shape, 7);
  initialize_parameters(graph);
  disturb_norms(graph);
  Shape shape = c.sample_shape;
  shape.insert(shape.begin(), 3);
  const at::Tensor x = at::randn(shape);
  const at::Tensor expected = c.reference(Reference(graph), x);
  const at::Tensor result = torch_output(graph, x);
  ASSERT_EQ(result.sizes(), expected.sizes());
  const double largest = expected.abs().max().item<double>();
  EXPECT_GT(largest, 0);
  EXPECT_LT((result - expected).abs().max().item<double>(), 1e-4 * largest);
}

TEST_P(BuiltinModel, IsSavedAndReadBack) {
  const ModelCase& c = GetParam();
  seed_everything(4);
  Graph graph = build_model(c.model, c.sample_shape, 7);
  initialize_parameters(graph);
  const fs::path path = fs::temp_directory_path() / fmt::format("detent_{}_{}.mz", c.model, getpid());
  write_graph(path, graph);
  const Graph loaded = read_graph(path);
  Shape shape = c.sample_shape;
  shape.insert(shape.begin(), 2);
  const at::Tensor x = at::randn(shape);
  EXPECT_TRUE(torch_output(loaded, x).equal(torch_output(graph, x)));
  fs::remove(path);
}

TEST_P(BuiltinModel, EveryParameterGetsAGradient) {
  const ModelCase& c = GetParam();
  seed_everything(5);
  Graph graph = build_model(c.model, c.sample_shape, 7);
  initialize_parameters(graph);
  Interpreter interpreter(graph);
  Shape shape = c.sample_shape;
  shape.insert(shape.begin(), 4);
  const at::Tensor result = interpreter.run(at::randn(shape));
  result.backward(at::randn(result.sizes()));
  for (const at::Tensor& parameter : interpreter.trainable_parameters()) {
    ASSERT_TRUE(parameter.grad().defined());
    EXPECT_TRUE(parameter.grad().isfinite().all().item<bool>());
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BuiltinModel, testing::ValuesIn(model_cases()),
                         [](const auto& c) { return c.param.model; });

TEST(PublishedWeightsSlow, Resnet20ClassifiesCifar10AsItsAuthorMeasured) {
  const std::string weights = "models/resnet20-cifar10-pth/resnet20-12fca82f.th";
  const auto root = published_data({weights, "cifar-10/test_batch.bin"});
  if (!root) GTEST_SKIP() << "no " << weights << " and cifar-10 in $DETENT_DATA or ../shared/data";
  const auto dataset = make_dataset("cifar10", Split::kTest, {*root});
  Graph graph = build_model("resnet20", dataset->sample_shape(), dataset->class_count());
  load_state_dict(graph, without_wrapper_prefixes(read_state_dict(*root / weights)), weights);
  EXPECT_EQ(graph.parameter_count(), 269722);
  EXPECT_EQ(evaluate(*FastExecutor().compile(graph), graph, *dataset, 250).correct,
            9173);  // 8.27 % errors, as published
}

}  // namespace
}  // namespace detent
