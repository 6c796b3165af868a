#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error_of_for_test.h"
#include "detent/graph/graph_parameters.h"
#include "detent/graph/operators.h"
#include "detent/models/model.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::SizeIs;

TEST(Models, BuildVerifiedGraphsOfTheRightOutputShape) {
  for (const ModelInfo& model : all_models()) {
    const Graph graph = build_model(model.name, model.sample_shape, model.class_count);
    EXPECT_NO_THROW(verify(graph));
    EXPECT_EQ(graph.name(), model.name);
    const auto results = infer_shapes(graph, 5);
    EXPECT_THAT(results.at("output").shape, ElementsAre(5, model.class_count)) << model.name;
    EXPECT_EQ(infer_shapes(build_model(model.name, model.sample_shape, 7)).at("output").shape, (Shape{1, 7}))
        << model.name;
  }
}

TEST(Models, NodeNamesAreThoseOfTheTracer) {
  EXPECT_THAT(build_model("toy", {1, 2, 2}, 2).node_names(),
              ElementsAre("x", "size", "view", "seq_blocks_0", "seq_blocks_1", "seq_blocks_2", "seq_blocks_3",
                          "seq_blocks_4", "output"));
  EXPECT_THAT(build_model("mnist_cnn", {1, 28, 28}, 10).node_names(),
              ElementsAre("x", "conv1", "relu", "max_pool2d", "conv2", "relu_1", "max_pool2d_1", "view",
                          "fc1", "relu_2", "fc2", "log_softmax", "output"));
}

TEST(Models, ParameterCounts) {
  EXPECT_EQ(build_model("toy", {1, 2, 2}, 2).parameter_count(), 500 + 10100 + 202);
  EXPECT_EQ(build_model("mnist_cnn", {1, 28, 28}, 10).parameter_count(), 520 + 25050 + 400500 + 5010);
  // As published: table 6 of He et al. 2015 gives 0.27, 0.46, 0.66 and 0.85 million for CIFAR, torchvision's
  // documentation the numbers for ImageNet, DeiT's that of its tiny model; the others are counted by hand.
  const std::vector<std::pair<std::string, int64_t>> published = {
      {"resnet20", 269722},   {"resnet32", 464154},   {"resnet44", 658586},   {"resnet56", 853018},
      {"resnet18", 11689512}, {"resnet34", 21797672}, {"resnet50", 25557032}, {"mobilenet_v2", 3504872},
      {"lenet5", 61706},      {"jsc_tiny", 117},      {"jsc_toy", 327},       {"vit_tiny", 5717416},
      {"vgg7", 14029450},     {"jsc_s", 5615},        {"vit_cifar", 1205898}, {"lfc", 401940},
      {"cnv", 1546708},       {"digits_lfc", 9226},   {"jsc_trt", 3231},
  };
  for (const auto& [name, count] : published) {
    const ModelInfo& model = find_model(name);
    EXPECT_EQ(build_model(name, model.sample_shape, model.class_count).parameter_count(), count) << name;
  }
}

std::vector<std::string> parameter_names(const std::string& name) {
  const ModelInfo& model = find_model(name);
  std::vector<std::string> names;
  for (const auto& [key, tensor] : state_dict(build_model(name, model.sample_shape, model.class_count))) {
    names.push_back(fmt::format("{} {}", key, shape_text(tensor.shape())));
  }
  return names;
}

TEST(Models, ParameterNamesAndShapesAreThoseOfPublishedWeights) {
  EXPECT_THAT(parameter_names("resnet20"),
              IsSupersetOf({"conv1.weight [16, 3, 3, 3]", "bn1.running_var [16]", "layer1.2.bn2.bias [16]",
                            "layer2.0.conv1.weight [32, 16, 3, 3]", "layer3.2.conv2.weight [64, 64, 3, 3]",
                            "linear.weight [10, 64]", "linear.bias [10]"}));
  EXPECT_THAT(parameter_names("resnet20"), SizeIs(1 + 4 + 9 * 2 * 5 + 2));
  EXPECT_THAT(parameter_names("resnet18"),
              IsSupersetOf({"conv1.weight [64, 3, 7, 7]", "layer1.1.conv2.weight [64, 64, 3, 3]",
                            "layer2.0.downsample.0.weight [128, 64, 1, 1]",
                            "layer2.0.downsample.1.running_mean [128]", "fc.weight [1000, 512]"}));
  EXPECT_THAT(parameter_names("resnet18"), SizeIs(122 - 20));  // torchvision's without num_batches_tracked
  EXPECT_THAT(
      parameter_names("resnet50"),
      IsSupersetOf({"layer1.0.conv3.weight [256, 64, 1, 1]", "layer1.0.downsample.0.weight [256, 64, 1, 1]",
                    "layer4.2.bn3.weight [2048]", "fc.weight [1000, 2048]"}));
  EXPECT_THAT(parameter_names("resnet50"), SizeIs(320 - 53));
  EXPECT_THAT(parameter_names("mobilenet_v2"),
              IsSupersetOf({"features.0.0.weight [32, 3, 3, 3]", "features.1.conv.0.0.weight [32, 1, 3, 3]",
                            "features.1.conv.1.weight [16, 32, 1, 1]", "features.2.conv.3.running_mean [24]",
                            "features.17.conv.1.0.weight [960, 1, 3, 3]", "features.18.1.weight [1280]",
                            "classifier.1.weight [1000, 1280]"}));
  EXPECT_THAT(parameter_names("mobilenet_v2"), SizeIs(314 - 52));
  EXPECT_THAT(
      parameter_names("vgg7"),
      IsSupersetOf({"feature_layers.17.weight [512, 512, 3, 3]", "feature_layers.18.running_var [512]",
                    "classifier.0.weight [1024, 8192]", "last_layer.bias [10]"}));
  EXPECT_THAT(parameter_names("jsc_s"),
              IsSupersetOf({"module_list.2.weight [64, 16]", "module_list.5.weight [32, 64]",
                            "module_list.11.weight [5, 32]", "module_list.12.running_mean [5]"}));
  EXPECT_THAT(
      parameter_names("vit_tiny"),
      IsSupersetOf({"cls_token [1, 1, 192]", "pos_embed [1, 197, 192]",
                    "patch_embed.proj.weight [192, 3, 16, 16]", "blocks.11.attn.qkv.weight [576, 192]",
                    "blocks.0.attn.proj.bias [192]", "blocks.0.mlp.fc1.weight [768, 192]",
                    "blocks.3.norm2.bias [192]", "norm.weight [192]", "head.weight [1000, 192]"}));
  EXPECT_THAT(parameter_names("vit_tiny"), SizeIs(4 + 12 * 12 + 2 + 2));
}

TEST(Models, AModuleUsedAgainIsNumberedAsByTheTracer) {
  const std::vector<std::string> names = build_model("resnet18", {3, 224, 224}, 1000).node_names();
  EXPECT_THAT(names, IsSupersetOf({"relu", "layer1_0_relu", "layer1_0_relu_1", "add", "add_7", "flatten"}));
}

TEST(Models, SayWhatDoesNotFit) {
  try {
    build_model("mnist_cnn", {3, 32, 32}, 10);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("model \"mnist_cnn\" does not fit samples of shape [3, 32, 32]"));
    EXPECT_THAT(error.what(), HasSubstr("conv1"));
  }
  const auto error_of = [](const char* model, const Shape& sample_shape) -> std::string {
    return detent::error_of([&] { build_model(model, sample_shape, 10); });
  };
  EXPECT_THAT(error_of("resnet20", {3072}), HasSubstr("got samples of shape [3072], expected images"));
  EXPECT_THAT(error_of("jsc_s", {1, 4, 4}), HasSubstr("shape [1, 4, 4], expected a list of features"));
  EXPECT_THAT(error_of("vit_tiny", {3, 30, 32}), HasSubstr("divisible by the patch size 16"));
  EXPECT_THAT(error_of("lenet5", {1, 64, 64}), HasSubstr("fc1"));
  EXPECT_THROW(build_model("tooy", {1, 2, 2}, 2), Error);
  EXPECT_EQ(find_model("toy-tiny").name, "toy_tiny");
}

}  // namespace
}  // namespace detent
