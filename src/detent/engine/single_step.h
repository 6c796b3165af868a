#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "detent/engine/step.h"
#include "detent/inference/flow.h"

namespace detent {

/// One step of a program by itself, for inputs of certain shapes in codes of certain types. Its places are
/// those of the inputs, 0, 1, ..., then that of the result. Several threads may run it at once.
class SingleStep {
 public:
  /// Values where there is no type. `unit` is what values are in where codes of more than 8 bits are rounded
  /// from them.
  struct Value {
    Shape shape;
    std::optional<CodeType> type;
    float unit = 1;
  };

  SingleStep(const std::vector<Value>& inputs, Value result, std::unique_ptr<EngineStep> step);

  bool is_for(std::span<const Tensor> inputs) const;
  Flow run(std::span<const Tensor> inputs) const;

 private:
  std::vector<Place> places_;
  int64_t bytes_ = 0;
  Value result_;
  std::unique_ptr<EngineStep> step_;
};

/// The step that ran last: shapes stay the same from token to token.
class LastStep {
 public:
  Flow run(std::span<const Tensor> inputs, const std::function<std::unique_ptr<SingleStep>()>& make);

 private:
  std::mutex mutex_;
  std::shared_ptr<const SingleStep> last_;
};

}  // namespace detent
