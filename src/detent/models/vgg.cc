#include "detent/core/error.h"
#include "detent/models/models.h"

namespace detent {

// Li et al. 2016, "Ternary weight networks" (arXiv:1605.04711), section 3; layers and names as in MASE.
Graph build_vgg7(const Shape& sample_shape, int64_t class_count) {
  constexpr int64_t kHidden = 1024;
  GraphBuilder builder("vgg7");
  NodeInput x = builder.input("x", sample_shape);
  int64_t channels = image_channels(sample_shape);
  int64_t index = 0;
  const auto next = [&] { return fmt::format("feature_layers.{}", index++); };
  for (const int64_t width : {128, 256, 512}) {
    for (int repetition = 0; repetition < 2; ++repetition) {
      x = builder.convolution(next(), x, channels, width, {3, 3}, {{"padding", 1}});
      x = builder.batch_norm("batch_norm2d", next(), x, width, {{"momentum", 0.9}});
      x = builder.module("relu", next(), x);
      channels = width;
    }
    x = builder.module("max_pool2d", next(), x, {{"kernel_size", 2}});
  }
  const int64_t features = channels * (sample_shape[1] / 8) * (sample_shape[2] / 8);
  x = builder.call("view", {x, constant(-1), constant(features)});
  x = builder.linear("classifier.0", x, features, kHidden);
  x = builder.module("relu", "classifier.1", x);
  x = builder.linear("classifier.2", x, kHidden, kHidden);
  x = builder.module("relu", "classifier.3", x);
  x = builder.linear("last_layer", x, kHidden, class_count);
  return builder.finish(x);
}

}  // namespace detent
