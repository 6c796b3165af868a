#pragma once

#include <span>
#include <string>

#include "detent/autograd/interpreter.h"

namespace detent {

/// Runs the network once more on inputs that gave a loss that is not finite. Returns which node is the first
/// whose output is not finite, and which of its parameters is not: `the first node whose output is not finite
/// is "fc" (linear), whose weight is not finite either`.
std::string describe_first_non_finite(const Interpreter& interpreter, std::span<const Tensor> inputs);

}  // namespace detent
