#include "detent/models/models.h"

#include "detent/core/error.h"

namespace detent {

int64_t image_channels(const Shape& sample_shape) {
  if (sample_shape.size() != 3) {
    fail("got samples of shape {}, expected images [channels, height, width]", shape_text(sample_shape));
  }
  return sample_shape[0];
}

NodeInput convolution_and_norm(GraphBuilder& builder, const std::string& convolution, const std::string& norm,
                               const NodeInput& x, const ConvolutionSize& size) {
  const Table attributes = {{"stride", size.stride}, {"padding", size.kernel / 2}, {"groups", size.groups}};
  const NodeInput y = builder.convolution(convolution, x, size.in, size.out, {size.kernel, size.kernel},
                                          attributes, /*bias=*/false);
  return builder.batch_norm("batch_norm2d", norm, y, size.out);
}

}  // namespace detent
