#include "detent/core/error.h"
#include "detent/models/models.h"

namespace detent {
namespace {

/// Blocks of each of the four stages, and whether they are bottlenecks (1x1, 3x3, 1x1).
struct Layout {
  std::array<int64_t, 4> blocks;
  bool bottleneck;
};

Layout layout_of(int64_t depth) {
  if (depth == 18) return {{2, 2, 2, 2}, false};
  if (depth == 34) return {{3, 4, 6, 3}, false};
  DETENT_CHECK(depth == 50, "depth {}", depth);
  return {{3, 4, 6, 3}, true};
}

struct BlockSize {
  int64_t in;
  int64_t width;
  int64_t out;
  int64_t stride;
};

/// The last batch norm of either kind of block comes without its ReLU: that follows the addition.
NodeInput basic_branch(GraphBuilder& builder, const std::string& name, NodeInput x, const BlockSize& size) {
  x = convolution_and_norm(builder, name + ".conv1", name + ".bn1", x,
                           {.in = size.in, .out = size.width, .stride = size.stride});
  x = builder.module("relu", name + ".relu", x);
  return convolution_and_norm(builder, name + ".conv2", name + ".bn2", x,
                              {.in = size.width, .out = size.out});
}

/// The stride is on the 3x3 convolution, as in torchvision, not on the first 1x1 as in the paper.
NodeInput bottleneck_branch(GraphBuilder& builder, const std::string& name, NodeInput x,
                            const BlockSize& size) {
  x = convolution_and_norm(builder, name + ".conv1", name + ".bn1", x,
                           {.in = size.in, .out = size.width, .kernel = 1});
  x = builder.module("relu", name + ".relu", x);
  x = convolution_and_norm(builder, name + ".conv2", name + ".bn2", x,
                           {.in = size.width, .out = size.width, .stride = size.stride});
  x = builder.module("relu", name + ".relu", x);
  return convolution_and_norm(builder, name + ".conv3", name + ".bn3", x,
                              {.in = size.width, .out = size.out, .kernel = 1});
}

NodeInput imagenet_block(GraphBuilder& builder, const std::string& name, const NodeInput& x, bool bottleneck,
                         const BlockSize& size) {
  const NodeInput y =
      bottleneck ? bottleneck_branch(builder, name, x, size) : basic_branch(builder, name, x, size);
  NodeInput shortcut = x;
  if (size.stride != 1 || size.in != size.out) {
    shortcut = convolution_and_norm(builder, name + ".downsample.0", name + ".downsample.1", x,
                                    {.in = size.in, .out = size.out, .kernel = 1, .stride = size.stride});
  }
  return builder.module("relu", name + ".relu", builder.call("add", {y, shortcut}));
}

}  // namespace

// He et al. 2015, arXiv:1512.03385; names and details as in torchvision.
Graph build_resnet(int64_t depth, const Shape& sample_shape, int64_t class_count) {
  const Layout layout = layout_of(depth);
  GraphBuilder builder(fmt::format("resnet{}", depth));
  int64_t channels = 64;
  NodeInput x =
      convolution_and_norm(builder, "conv1", "bn1", builder.input("x", sample_shape),
                           {.in = image_channels(sample_shape), .out = channels, .kernel = 7, .stride = 2});
  x = builder.module("relu", "relu", x);
  x = builder.module("max_pool2d", "maxpool", x, {{"kernel_size", 3}, {"stride", 2}, {"padding", 1}});
  for (size_t stage = 0; stage < layout.blocks.size(); ++stage) {
    const int64_t width = int64_t{64} << stage;
    const int64_t out = layout.bottleneck ? 4 * width : width;
    for (int64_t block = 0; block < layout.blocks[stage]; ++block) {
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      x = imagenet_block(builder, fmt::format("layer{}.{}", stage + 1, block), x, layout.bottleneck,
                         {.in = channels, .width = width, .out = out, .stride = stride});
      channels = out;
    }
  }
  x = builder.module("adaptive_avg_pool2d", "avgpool", x, {{"output_size", 1}});
  x = builder.call("flatten", {x});
  x = builder.linear("fc", x, channels, class_count);
  return builder.finish(x);
}

}  // namespace detent
