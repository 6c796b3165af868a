#include "detent/core/error.h"
#include "detent/models/models.h"

// Networks that are trained with signs, and then with tables: no activation but what the next layer rounds
// to, batch norm after each layer. LFC and CNV: FINN (Umuroglu et al. 2017, arXiv:1612.07119) as LUTNet
// (Wang et al. 2019, arXiv:1904.00938) has them.

namespace detent {
namespace {

struct Layers {
  GraphBuilder& builder;
  NodeInput x;
  int64_t width;
  int64_t count = 0;

  void linear(int64_t out) {
    ++count;
    x = builder.linear(fmt::format("fc{}", count), x, width, out, false);
    x = builder.batch_norm("batch_norm1d", fmt::format("bn{}", count), x, out);
    width = out;
  }
  void convolution(int64_t out) {
    ++count;
    x = builder.convolution(fmt::format("conv{}", count), x, width, out, {3, 3}, {}, false);
    x = builder.batch_norm("batch_norm2d", fmt::format("bn{}", count), x, out);
    width = out;
  }
};

NodeInput flattened(GraphBuilder& builder, const NodeInput& x) {
  return builder.call("flatten", {x}, {{"start_dim", 1}});
}

}  // namespace

Graph build_lfc(const Shape& sample_shape, int64_t class_count) {
  constexpr int64_t kHidden = 256;
  GraphBuilder builder("lfc");
  Layers layers{builder, flattened(builder, builder.input("x", sample_shape)), element_count(sample_shape)};
  for (int i = 0; i < 4; ++i) layers.linear(kHidden);
  layers.linear(class_count);
  return builder.finish(builder.call("log_softmax", {layers.x}, {{"dim", 1}}));
}

/// Three 3 x 3 convolutions in pairs, without borders, and three linear layers; for images of 32 x 32.
Graph build_cnv(const Shape& sample_shape, int64_t class_count) {
  GraphBuilder builder("cnv");
  Layers layers{builder, builder.input("x", sample_shape), image_channels(sample_shape)};
  int64_t height = sample_shape[1];
  int64_t breadth = sample_shape[2];
  for (const int64_t width : {64, 128, 256}) {
    layers.convolution(width);
    layers.convolution(width);
    height -= 4;
    breadth -= 4;
    if (height < 1 || breadth < 1)
      fail("got samples of shape {}, expected images of at least 32 x 32", shape_text(sample_shape));
    if (width == 256) break;
    layers.x = builder.call("max_pool2d", {layers.x}, {{"kernel_size", 2}});
    height /= 2;
    breadth /= 2;
  }
  layers.x = flattened(builder, layers.x);
  layers.width *= height * breadth;
  for (int i = 0; i < 2; ++i) layers.linear(512);
  layers.linear(class_count);
  return builder.finish(layers.x);
}

/// The brightness of images is normalised first, so that half of the signs are positive.
Graph build_digits_lfc(const Shape& sample_shape, int64_t class_count) {
  constexpr int64_t kHidden = 64;
  const int64_t pixels = element_count(sample_shape);
  GraphBuilder builder("digits_lfc");
  NodeInput x = flattened(builder, builder.input("x", sample_shape));
  x = builder.batch_norm("batch_norm1d", "bn0", x, pixels);
  Layers layers{builder, x, pixels};
  layers.linear(kHidden);
  layers.linear(kHidden);
  return builder.finish(builder.linear("fc3", layers.x, kHidden, class_count));
}

}  // namespace detent
