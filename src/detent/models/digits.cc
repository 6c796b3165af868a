#include "detent/graph/builder.h"
#include "detent/models/models.h"

namespace detent {

Graph build_mnist_cnn(const Shape& sample_shape, int64_t class_count) {
  GraphBuilder builder("mnist_cnn");
  NodeInput x = builder.input("x", sample_shape);
  x = builder.convolution("conv1", x, 1, 20, {5, 5});
  x = builder.call("relu", {x});
  x = builder.call("max_pool2d", {x}, {{"kernel_size", 2}, {"stride", 2}});
  x = builder.convolution("conv2", x, 20, 50, {5, 5});
  x = builder.call("relu", {x});
  x = builder.call("max_pool2d", {x}, {{"kernel_size", 2}, {"stride", 2}});
  x = builder.call("view", {x, constant(-1), constant(int64_t{4} * 4 * 50)});
  x = builder.linear("fc1", x, int64_t{4} * 4 * 50, 500);
  x = builder.call("relu", {x});
  x = builder.linear("fc2", x, 500, class_count);
  x = builder.call("log_softmax", {x}, {{"dim", 1}});
  return builder.finish(x);
}

/// stem - residual block - pool - residual-free block - global mean - classifier; 13,000 weights.
Graph build_digits_cnn(const Shape& sample_shape, int64_t class_count) {
  constexpr int64_t kNarrow = 16;
  constexpr int64_t kWide = 32;
  const Table padded = {{"padding", 1}};
  GraphBuilder builder("digits_cnn");
  NodeInput x = builder.input("x", sample_shape);
  x = builder.convolution("stem.conv", x, sample_shape.empty() ? 1 : sample_shape[0], kNarrow, {3, 3}, padded,
                          false);
  x = builder.batch_norm("batch_norm2d", "stem.bn", x, kNarrow);
  const NodeInput shortcut = builder.call("relu", {x});

  x = builder.convolution("block.conv1", shortcut, kNarrow, kNarrow, {3, 3}, padded, false);
  x = builder.batch_norm("batch_norm2d", "block.bn1", x, kNarrow);
  x = builder.call("relu", {x});
  x = builder.convolution("block.conv2", x, kNarrow, kNarrow, {3, 3}, padded, false);
  x = builder.batch_norm("batch_norm2d", "block.bn2", x, kNarrow);
  x = builder.call("add", {x, shortcut});
  x = builder.call("relu", {x});

  x = builder.call("max_pool2d", {x}, {{"kernel_size", 2}});
  x = builder.convolution("head.conv", x, kNarrow, kWide, {3, 3}, padded);
  x = builder.call("relu", {x});
  x = builder.call("adaptive_avg_pool2d", {x}, {{"output_size", 1}});
  x = builder.call("flatten", {x});
  x = builder.linear("fc", x, kWide, class_count);
  return builder.finish(x);
}

}  // namespace detent
