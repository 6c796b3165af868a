#pragma once

#include "detent/graph/traits.h"

namespace detent {

/// The result for two numbers, in the arithmetic of their type.
template <class Number>
Number combined(PairOperation operation, Number a, Number b) {
  switch (operation) {
    case PairOperation::kAdd:
      return a + b;
    case PairOperation::kSub:
      return a - b;
    case PairOperation::kMul:
      return a * b;
    case PairOperation::kDiv:
      return a / b;
    case PairOperation::kPrelu:
      return a < 0 ? a * b : a;
  }
  return 0;
}

}  // namespace detent
