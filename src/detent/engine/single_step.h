#pragma once

#include <vector>

#include "detent/engine/step.h"
#include "detent/runtime/flow.h"

namespace detent {

/// Memory of one step of a program by itself: places of its inputs, 0, 1, ..., then that of its result.
class SingleStep {
 public:
  /// What the step gives: values where there is no type. `unit` is what values are in where codes of more
  /// than 8 bits are rounded from them.
  struct Result {
    Shape shape;
    std::optional<CodeType> type;
    float unit = 1;
  };

  /// Inputs in codes.
  SingleStep(const std::vector<Flow>& inputs, Result result);

  Flow run(EngineStep& step);

 private:
  std::vector<Place> places_;
  Tensor arena_;
  Result result_;
};

}  // namespace detent
