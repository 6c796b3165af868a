#pragma once

#include "detent/datasets/dataset.h"

namespace detent {

/// Points of a cube, two classes by the sign of their sum: the data of the ternary statistics tutorial.
DatasetInfo toy_tiny_info();

}  // namespace detent
