#include "detent/graph/builder.h"
#include "detent/models/models.h"

namespace detent {

// LeCun et al. 1998, "Gradient-based learning applied to document recognition", in the form used today: mean
// pooling without weights, every channel of conv2 reads all of conv1, a linear layer for the output.
Graph build_lenet5(const Shape& sample_shape, int64_t class_count) {
  constexpr int64_t kFeatures = int64_t{16} * 5 * 5;
  const int64_t channels = image_channels(sample_shape);
  const int64_t border = sample_shape[1] == 28 ? 2 : 0;  // the paper pads MNIST's 28x28 to 32x32
  GraphBuilder builder("lenet5");
  NodeInput x = builder.input("x", sample_shape);
  x = builder.convolution("conv1", x, channels, 6, {5, 5}, {{"padding", border}});
  x = builder.call("tanh", {x});
  x = builder.call("avg_pool2d", {x}, {{"kernel_size", 2}});
  x = builder.convolution("conv2", x, 6, 16, {5, 5});
  x = builder.call("tanh", {x});
  x = builder.call("avg_pool2d", {x}, {{"kernel_size", 2}});
  x = builder.call("flatten", {x});
  x = builder.linear("fc1", x, kFeatures, 120);
  x = builder.call("tanh", {x});
  x = builder.linear("fc2", x, 120, 84);
  x = builder.call("tanh", {x});
  x = builder.linear("fc3", x, 84, class_count);
  return builder.finish(x);
}

}  // namespace detent
