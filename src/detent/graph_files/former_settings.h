#pragma once

#include <string>

#include "detent/graph/quantizer.h"

namespace detent {

/// Earlier files of version 4 hold settings of a quantizer as tensors among its parameters: `rounding`,
/// `folds_norm` (numbers of enumerators) and `collected` (an observer). Makes them what they are. Throws
/// Error, beginning with `where`, on numbers that stand for nothing.
void take_former_settings(Quantizer& quantizer, const std::string& where);

}  // namespace detent
