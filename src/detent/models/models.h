#pragma once

#include <string>

#include "detent/graph/builder.h"
#include "detent/models/model.h"

namespace detent {

// One builder per network, in the file of its family; models/registry.cc lists them.
Graph build_toy(const Shape& sample_shape, int64_t class_count);
Graph build_toy_tiny(const Shape& sample_shape, int64_t class_count);
Graph build_toy_convnet(const Shape& sample_shape, int64_t class_count);
Graph build_mnist_cnn(const Shape& sample_shape, int64_t class_count);
Graph build_digits_cnn(const Shape& sample_shape, int64_t class_count);
/// resnet20, resnet32, ...: `depth` is 6 n + 2.
Graph build_cifar_resnet(int64_t depth, const Shape& sample_shape, int64_t class_count);
/// resnet18, resnet34 or resnet50.
Graph build_resnet(int64_t depth, const Shape& sample_shape, int64_t class_count);
Graph build_mobilenet_v2(const Shape& sample_shape, int64_t class_count);
Graph build_vgg7(const Shape& sample_shape, int64_t class_count);
Graph build_lenet5(const Shape& sample_shape, int64_t class_count);
Graph build_lfc(const Shape& sample_shape, int64_t class_count);
Graph build_cnv(const Shape& sample_shape, int64_t class_count);
Graph build_digits_lfc(const Shape& sample_shape, int64_t class_count);
Graph build_jsc_toy(const Shape& sample_shape, int64_t class_count);
Graph build_jsc_tiny(const Shape& sample_shape, int64_t class_count);
Graph build_jsc_s(const Shape& sample_shape, int64_t class_count);
Graph build_jsc_trt(const Shape& sample_shape, int64_t class_count);
Graph build_digits_logicnet(const Shape& sample_shape, int64_t class_count);
Graph build_mnist_logicnet(const Shape& sample_shape, int64_t class_count);
Graph build_vit_tiny(const Shape& sample_shape, int64_t class_count);
Graph build_vit_cifar(const Shape& sample_shape, int64_t class_count);

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
