#pragma once

#include <optional>

#include "detent/core/tensor.h"
#include "detent/core/value.h"

namespace detent {

/// A list of numbers, or of such lists of equal shape, as a tensor: int64 where all numbers are integers,
/// float32 where all are floats of that precision, else float64. nullopt for any other value (numbers of both
/// kinds among them) and for fewer than `least` numbers. Equal to the list in every bit but those of NaN.
std::optional<Tensor> tensor_of_list(const Value& list, size_t least);

/// The inverse. Throws Error on another dtype and on a tensor without dimensions.
Value list_of_tensor(const Tensor& tensor);

}  // namespace detent
