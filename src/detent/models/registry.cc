#include <algorithm>
#include <functional>

#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/models/models.h"

namespace detent {
namespace {

std::string cifar_resnet_help(int depth) {
  return fmt::format("residual network of {} layers for CIFAR, shortcuts without parameters", depth);
}

std::string resnet_help(int depth) {
  return fmt::format("residual network of {} layers, names as in torchvision", depth);
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a list
std::span<const ModelInfo> all_models() {
  const Shape jets = {16};
  const Shape digits = {1, 8, 8};
  const Shape mnist = {1, 28, 28};
  const Shape cifar = {3, 32, 32};
  const Shape imagenet = {3, 224, 224};
  static const std::vector<ModelInfo> models = {
      {"toy", {}, "three linear layers of 100 hidden units: the tutorial's network", {1, 2, 2}, 2, build_toy},
      {"toy_tiny", {"toy-tiny"}, "one linear layer of 2 units and a ReLU", {1, 2, 2}, 2, build_toy_tiny},
      {"toy_convnet",
       {"toy-convnet"},
       "two conv2d and two conv1d layers on RGB images",
       {3, 16, 16},
       10,
       build_toy_convnet},
      {"mnist_cnn",
       {"mnist-cnn"},
       "two 5x5 convolutions and two linear layers on 28x28 images",
       mnist,
       10,
       build_mnist_cnn},
      {"digits_cnn",
       {"digits-cnn"},
       "a small residual network with batch norm on 8x8 images",
       digits,
       10,
       build_digits_cnn},
      {"vgg7", {}, "six convolutions and three linear layers, for CIFAR", cifar, 10, build_vgg7},
      {"resnet20", {}, cifar_resnet_help(20), cifar, 10, std::bind_front(build_cifar_resnet, 20)},
      {"resnet32", {}, cifar_resnet_help(32), cifar, 10, std::bind_front(build_cifar_resnet, 32)},
      {"resnet44", {}, cifar_resnet_help(44), cifar, 10, std::bind_front(build_cifar_resnet, 44)},
      {"resnet56", {}, cifar_resnet_help(56), cifar, 10, std::bind_front(build_cifar_resnet, 56)},
      {"resnet18", {}, resnet_help(18), imagenet, 1000, std::bind_front(build_resnet, 18)},
      {"resnet34", {}, resnet_help(34), imagenet, 1000, std::bind_front(build_resnet, 34)},
      {"resnet50", {}, resnet_help(50), imagenet, 1000, std::bind_front(build_resnet, 50)},
      {"mobilenet_v2",
       {"mobilenet-v2"},
       "inverted residuals and depthwise convolutions, names as in torchvision",
       imagenet,
       1000,
       build_mobilenet_v2},
      {"lfc",
       {},
       "five linear layers with batch norm, to be trained with signs (FINN, LUTNet)",
       mnist,
       10,
       build_lfc},
      {"cnv",
       {},
       "six convolutions and three linear layers with batch norm, to be trained with signs (FINN, LUTNet)",
       cifar,
       10,
       build_cnv},
      {"digits_lfc",
       {"digits-lfc"},
       "three linear layers with batch norm on 8x8 images, to be trained with signs",
       digits,
       10,
       build_digits_lfc},
      {"lenet5", {}, "two convolutions and three linear layers, of 1998", mnist, 10, build_lenet5},
      {"jsc_tiny", {"jsc-tiny"}, "one linear layer with batch norm, for jets", jets, 5, build_jsc_tiny},
      {"jsc_toy", {"jsc-toy"}, "three linear layers with batch norm, for jets", jets, 5, build_jsc_toy},
      {"jsc_s", {"jsc-s"}, "five linear layers of up to 64 units, for jets", jets, 5, build_jsc_s},
      {"jsc_trt",
       {"jsc-trt"},
       "four linear layers with batch norm and dropout, for jets",
       jets,
       5,
       build_jsc_trt},
      {"digits_logicnet",
       {"digits-logicnet"},
       "linear layers with batch norm on 8x8 images, to become truth tables",
       digits,
       10,
       build_digits_logicnet},
      {"mnist_logicnet",
       {"mnist-logicnet"},
       "linear layers with batch norm on 28x28 images, to become truth tables",
       mnist,
       10,
       build_mnist_logicnet},
      {"vit_cifar",
       {"vit-cifar"},
       "vision transformer of 6 blocks, patches of 4x4, for CIFAR",
       cifar,
       10,
       build_vit_cifar},
      {"vit_tiny",
       {"vit-tiny", "deit_tiny"},
       "vision transformer of 12 blocks, patches of 16x16, names as in DeiT",
       imagenet,
       1000,
       build_vit_tiny},
  };
  return models;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelInfo& model : all_models()) names.push_back(model.name);
  return names;
}

const ModelInfo& find_model(std::string_view name) {
  for (const ModelInfo& model : all_models()) {
    if (model.name == name || std::ranges::find(model.aliases, name) != model.aliases.end()) return model;
  }
  fail_unknown("", "model", name, model_names(), {.key = "model"});
}

Graph build_model(std::string_view name, const Shape& sample_shape, int64_t class_count) {
  const ModelInfo& model = find_model(name);
  try {
    return model.build(sample_shape, class_count);
  } catch (const Error& error) {
    fail("model \"{}\" does not fit samples of shape {} and {} classes: {}", model.name,
         shape_text(sample_shape), class_count, error.what());
  }
}

}  // namespace detent
