#pragma once

#include "detent/datasets/dataset.h"

namespace detent {

/// Handwritten digits, 28x28, from the published idx files.
DatasetInfo mnist_info();

/// Pictures of clothes in MNIST's format, from files of the same names.
DatasetInfo fashion_mnist_info();

}  // namespace detent
