#pragma once

#include <memory>

#include "detent/core/tensor.h"
#include "detent/integer/node_form.h"

namespace detent {

/// Sums, differences and products of codes of 8 bits by a kernel. The results are those of the plain
/// reference.
class CodePairs {
 public:
  virtual ~CodePairs() = default;

  /// In codes of the form's output. Operands broadcast.
  virtual Tensor results(const Tensor& a, const Tensor& b) const = 0;
};

/// Null where no kernel computes the pairs.
std::unique_ptr<const CodePairs> code_pairs(const PairForm& form);

}  // namespace detent
