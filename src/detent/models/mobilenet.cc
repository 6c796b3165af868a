#include <algorithm>
#include <array>

#include "detent/core/error.h"
#include "detent/models/models.h"

namespace detent {
namespace {

/// A row of table 2 of Sandler et al. 2018: blocks of one width.
struct Stage {
  int64_t expansion;
  int64_t channels;
  int64_t blocks;
  int64_t stride;
};

constexpr std::array<Stage, 7> kStages = {{{1, 16, 1, 1},
                                           {6, 24, 2, 2},
                                           {6, 32, 3, 2},
                                           {6, 64, 4, 2},
                                           {6, 96, 3, 1},
                                           {6, 160, 3, 2},
                                           {6, 320, 1, 1}}};

/// Module `name` is a sequence of convolution, batch norm and ReLU6.
NodeInput activated(GraphBuilder& builder, const std::string& name, const NodeInput& x,
                    const ConvolutionSize& size) {
  const NodeInput y = convolution_and_norm(builder, name + ".0", name + ".1", x, size);
  return builder.module("relu6", name + ".2", y);
}

/// Widens, filters each channel by itself, narrows again without an activation.
NodeInput inverted_residual(GraphBuilder& builder, const std::string& name, const NodeInput& x, int64_t in,
                            const Stage& stage, int64_t stride) {
  const std::string sequence = name + ".conv.";
  const int64_t hidden = in * stage.expansion;
  int64_t position = 0;
  const auto next = [&] { return sequence + std::to_string(position++); };
  NodeInput y = x;
  if (stage.expansion != 1) y = activated(builder, next(), y, {.in = in, .out = hidden, .kernel = 1});
  y = activated(builder, next(), y, {.in = hidden, .out = hidden, .stride = stride, .groups = hidden});
  const std::string projection = next();
  y = convolution_and_norm(builder, projection, next(), y,
                           {.in = hidden, .out = stage.channels, .kernel = 1});
  return stride == 1 && in == stage.channels ? builder.call("add", {x, y}) : y;
}

}  // namespace

// Sandler et al. 2018, arXiv:1801.04381, of width 1; names as in torchvision.
Graph build_mobilenet_v2(const Shape& sample_shape, int64_t class_count) {
  constexpr int64_t kFeatures = 1280;
  GraphBuilder builder("mobilenet_v2");
  int64_t channels = 32;
  NodeInput x = activated(builder, "features.0", builder.input("x", sample_shape),
                          {.in = image_channels(sample_shape), .out = channels, .stride = 2});
  int64_t index = 1;
  for (const Stage& stage : kStages) {
    for (int64_t block = 0; block < stage.blocks; ++block) {
      const int64_t stride = block == 0 ? stage.stride : 1;
      x = inverted_residual(builder, fmt::format("features.{}", index++), x, channels, stage, stride);
      channels = stage.channels;
    }
  }
  x = activated(builder, fmt::format("features.{}", index), x,
                {.in = channels, .out = kFeatures, .kernel = 1});
  x = builder.call("adaptive_avg_pool2d", {x}, {{"output_size", 1}});
  x = builder.call("flatten", {x});
  x = builder.module("dropout", "classifier.0", x, {{"p", 0.2}});
  x = builder.linear("classifier.1", x, kFeatures, class_count);
  return builder.finish(x);
}

}  // namespace detent
