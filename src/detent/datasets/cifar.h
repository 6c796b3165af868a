#pragma once

#include "detent/datasets/dataset.h"

namespace detent {

/// Photographs of ten kinds of things, 32x32 RGB, from the published binary files.
DatasetInfo cifar10_info();

/// The same, of a hundred kinds.
DatasetInfo cifar100_info();

}  // namespace detent
