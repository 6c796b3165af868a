#pragma once

#include <string>

#include "detent/core/tensor.h"
#include "detent/integer/node_form.h"

namespace detent {

/// Why the kernels cannot compute a product of inputs of these shapes; "" when they can.
std::string why_not_multiplied(const ProductForm& form, const Shape& a, const Shape& b);

}  // namespace detent
