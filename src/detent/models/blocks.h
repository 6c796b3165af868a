#pragma once

#include <string>

#include "detent/graph/builder.h"

namespace detent {

/// The channels of samples [channels, height, width]; Error for other samples.
int64_t image_channels(const Shape& sample_shape);

/// Attributes of a convolution of a residual network: no bias, and padding that keeps the size at
/// stride 1.
struct ConvolutionSize {
  int64_t in;
  int64_t out;
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t groups = 1;
};

/// A convolution followed by a batch norm, as modules of these names.
NodeInput convolution_and_norm(GraphBuilder& builder, const std::string& convolution, const std::string& norm,
                               const NodeInput& x, const ConvolutionSize& size);

}  // namespace detent
