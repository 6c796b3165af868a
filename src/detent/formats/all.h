#pragma once

#include <variant>

#include "detent/formats/binary.h"
#include "detent/formats/fixed.h"
#include "detent/formats/ternary.h"

namespace detent {

/// Every number format. To add one: its header, its line here and in the list below.
using Format = std::variant<Fixed, Ternary, Binary>;

}  // namespace detent
