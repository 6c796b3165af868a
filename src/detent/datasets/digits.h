#pragma once

#include "detent/datasets/dataset.h"

namespace detent {

/// The 8x8 handwritten digits that are built into the library.
DatasetInfo digits_info();

}  // namespace detent
