#include "detent/core/error.h"
#include "detent/models/models.h"

namespace detent {
namespace {

/// The shortcut without parameters (option A of He et al. 2015, arXiv:1512.03385): every second pixel, and as
/// many channels of zeros before as after.
NodeInput padded_shortcut(GraphBuilder& builder, const NodeInput& x, int64_t in, int64_t out) {
  const NodeInput every_second =
      builder.call("slice", {x}, {{"dims", List{Value(2), Value(3)}}, {"steps", 2}});
  const int64_t border = (out - in) / 2;
  const List pad = {Value(0), Value(0), Value(0), Value(0), Value(border), Value(border)};
  return builder.call("pad", {every_second}, {{"pad", pad}});
}

NodeInput residual_block(GraphBuilder& builder, const std::string& name, const NodeInput& x, int64_t in,
                         int64_t out) {
  const int64_t stride = in == out ? 1 : 2;
  NodeInput y = convolution_and_norm(builder, name + ".conv1", name + ".bn1", x,
                                     {.in = in, .out = out, .stride = stride});
  y = builder.call("relu", {y});
  y = convolution_and_norm(builder, name + ".conv2", name + ".bn2", y, {.in = out, .out = out});
  const NodeInput shortcut = in == out ? x : padded_shortcut(builder, x, in, out);
  return builder.call("relu", {builder.call("add", {y, shortcut})});
}

}  // namespace

// He et al. 2015, section 4.2; names as in the widely used implementation whose weights are published
// (Y. Idelbayev, "Proper ResNet implementation for CIFAR10/CIFAR100 in PyTorch").
Graph build_cifar_resnet(int64_t depth, const Shape& sample_shape, int64_t class_count) {
  DETENT_CHECK(depth % 6 == 2, "depth {}, expected 6 n + 2", depth);
  GraphBuilder builder(fmt::format("resnet{}", depth));
  int64_t channels = 16;
  NodeInput x = convolution_and_norm(builder, "conv1", "bn1", builder.input("x", sample_shape),
                                     {.in = image_channels(sample_shape), .out = channels});
  x = builder.call("relu", {x});
  for (int64_t stage = 1; stage <= 3; ++stage) {
    for (int64_t block = 0; block < (depth - 2) / 6; ++block) {
      const int64_t out = block == 0 && stage > 1 ? 2 * channels : channels;
      x = residual_block(builder, fmt::format("layer{}.{}", stage, block), x, channels, out);
      channels = out;
    }
  }
  x = builder.call("adaptive_avg_pool2d", {x}, {{"output_size", 1}});
  x = builder.call("flatten", {x});
  x = builder.linear("linear", x, channels, class_count);
  return builder.finish(x);
}

}  // namespace detent
