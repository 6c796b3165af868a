#include <algorithm>

#include "detent/core/error.h"
#include "detent/models/models.h"

namespace detent {

std::span<const ModelInfo> all_models() {
  static const std::vector<ModelInfo> models = {
      {"toy", {}, "three linear layers of 100 hidden units: the tutorial's network", build_toy},
      {"toy_tiny", {"toy-tiny"}, "one linear layer of 2 units and a ReLU", build_toy_tiny},
      {"toy_convnet", {"toy-convnet"}, "two conv2d and two conv1d layers on RGB images", build_toy_convnet},
      {"mnist_cnn",
       {"mnist-cnn"},
       "two 5x5 convolutions and two linear layers on 28x28 images",
       build_mnist_cnn},
      {"digits_cnn",
       {"digits-cnn"},
       "a small residual network with batch norm on 8x8 images",
       build_digits_cnn},
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
  throw Error(unknown_name_message("model", name, model_names()));
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
