#pragma once

#include "detent/datasets/dataset.h"

namespace detent {

/// The 8x8 handwritten digits that are built into the library.
DatasetInfo digits_info();

/// All 1,797 of them, in their order, whatever the split.
std::unique_ptr<Dataset> make_all_digits();

}  // namespace detent
