#include <utility>

#include "detent/core/error.h"
#include "detent/engine/row_layer.h"
#include "detent/engine/step.h"
#include "detent/inference/flow.h"

namespace detent {
namespace {

/// A linear layer on a flow [..., inputs] of as many rows as the run has.
class RowLayerStep final : public EngineStep {
 public:
  RowLayerStep(const ReferenceStep& step, std::shared_ptr<const RowLayer> layer, size_t from, size_t to)
      : step_(step), layer_(std::move(layer)), from_(from), to_(to) {}

  void run(RunState& state) const override {
    const Flow input = converted(*step_.node, state.flows[from_], step_.inputs[0]);
    const Tensor x = step_.inputs[0] ? input.tensor : as_values(input);
    Shape shape = x.shape();
    const int64_t inputs = step_.node->find_parameter("weight")->tensor.dim(1);
    if (shape.empty() || shape.back() != inputs)
      fail("node \"{}\" ({}): got rows of shape {}, expected {} elements", step_.node->name, step_.node->op,
           shape_text(shape), inputs);
    const int64_t rows = element_count({shape.begin(), shape.end() - 1});
    shape.back() = layer_->outputs();
    Flow result;
    if (rows == 0) {
      result = {Tensor(step_.outputs[0] ? DType::kInt32 : DType::kFloat32, shape), step_.outputs[0]};
    } else {
      result = layer_->results(x.reshaped({rows, inputs}));
      result.tensor = result.tensor.reshaped(shape);
    }
    state.flows[to_] = std::move(result);
  }

 private:
  const ReferenceStep& step_;
  std::shared_ptr<const RowLayer> layer_;
  size_t from_;
  size_t to_;
};

}  // namespace

std::unique_ptr<EngineStep> row_layer_step(const ReferenceStep& step, std::shared_ptr<const RowLayer> layer,
                                           size_t from, size_t to) {
  return std::make_unique<RowLayerStep>(step, std::move(layer), from, to);
}

}  // namespace detent
