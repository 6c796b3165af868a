#include "detent/graph/builder.h"
#include "detent/models/models.h"

namespace detent {
namespace {

/// x.view(x.size(0), -1)
NodeInput flatten_by_view(GraphBuilder& builder, const NodeInput& x) {
  const NodeInput batch = builder.call("size", {x, constant(0)});
  return builder.call("view", {x, batch, constant(-1)});
}

}  // namespace

Graph build_toy(const Shape& sample_shape, int64_t class_count) {
  constexpr int64_t kHidden = 100;  // as in the published tutorial; later versions of the original have 8
  GraphBuilder builder("toy");
  NodeInput x = flatten_by_view(builder, builder.input("x", sample_shape));
  x = builder.linear("seq_blocks.0", x, element_count(sample_shape), kHidden);
  x = builder.module("relu", "seq_blocks.1", x);
  x = builder.linear("seq_blocks.2", x, kHidden, kHidden);
  x = builder.module("relu", "seq_blocks.3", x);
  x = builder.linear("seq_blocks.4", x, kHidden, class_count);
  return builder.finish(x);
}

// The original also creates a second layer that its forward pass does not use; it is left out here, and the
// network has one output a class instead of always two.
Graph build_toy_tiny(const Shape& sample_shape, int64_t class_count) {
  GraphBuilder builder("toy_tiny");
  NodeInput x = flatten_by_view(builder, builder.input("x", sample_shape));
  x = builder.linear("l1", x, element_count(sample_shape), class_count);
  x = builder.module("relu", "relu_1", x);
  return builder.finish(x);
}

Graph build_toy_convnet(const Shape& sample_shape, int64_t class_count) {
  const Table padded = {{"padding", 1}};
  GraphBuilder builder("toy_convnet");
  const NodeInput input = builder.input("x", sample_shape);
  NodeInput x = builder.convolution("block_1.0", input, 3, 8, {3, 3}, padded);
  x = builder.module("relu", "block_1.1", x);
  x = builder.module("max_pool2d", "maxpool2d_1", x, {{"kernel_size", 2}});
  x = builder.convolution("block_2.0", x, 8, 16, {3, 3}, padded);
  x = builder.module("relu", "block_2.1", x);
  const NodeInput batch = builder.call("size", {x, constant(0)});
  x = builder.call("view", {x, batch, constant(16), constant(-1)});
  x = builder.convolution("block_3.0", x, 16, 32, {3}, padded);
  x = builder.module("relu", "block_3.1", x);
  x = builder.convolution("block_4.0", x, 32, 64, {3}, padded);
  x = builder.module("relu", "block_4.1", x);
  x = builder.module("adaptive_avg_pool1d", "avgpool1d_1", x, {{"output_size", 1}});
  const NodeInput batch_again = builder.call("size", {x, constant(0)});
  x = builder.call("view", {x, batch_again, constant(-1)});
  x = builder.linear("linear", x, 64, class_count);
  return builder.finish(x);
}

}  // namespace detent
