#pragma once

#include "detent/datasets/dataset.h"

namespace detent {

/// The user's own images: a folder a split with a folder a class with JPEG and PNG files.
DatasetInfo image_folder_info();

}  // namespace detent
