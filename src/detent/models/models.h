#pragma once

#include "detent/models/model.h"

namespace detent {

// One builder a network, each in the file of its family; models/registry.cc lists them.
Graph build_toy(const Shape& sample_shape, int64_t class_count);
Graph build_toy_tiny(const Shape& sample_shape, int64_t class_count);
Graph build_toy_convnet(const Shape& sample_shape, int64_t class_count);
Graph build_mnist_cnn(const Shape& sample_shape, int64_t class_count);
Graph build_digits_cnn(const Shape& sample_shape, int64_t class_count);

}  // namespace detent
