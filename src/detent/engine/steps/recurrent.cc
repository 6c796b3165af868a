#include "detent/core/convert.h"
#include "detent/engine/step.h"

namespace detent {
namespace {

class RecurrentStep final : public EngineStep {
 public:
  explicit RecurrentStep(RecurrentPlaces places) : places_(std::move(places)) { multiplies_floats = true; }

  void prepare(std::span<const Place> places) override {
    const Shape& inputs = places[places_.inputs].shape;
    const Shape& last = places[places_.results[1]].shape;
    const size_t samples_dim = places_.layer->batch_first() ? 0 : 1;
    steps_ = inputs[1 - samples_dim];
    samples_ = last[samples_dim];
    one_input_ = inputs[samples_dim] == 1;
    products = static_cast<double>(places_.layer->products() * steps_ * samples_);
    for (size_t s = 0; s < places_.first.size(); ++s) {
      if (places_.first[s]) is_shared_[s] = places[*places_.first[s]].shape[samples_dim] == 1;
    }
  }

  void run(RunState& state) const override {
    RecurrentRun run{.steps = steps_,
                     .samples = samples_,
                     .one_input = one_input_,
                     .inputs = state.values(places_.inputs)};
    if (places_.lengths) {
      const Tensor lengths = to_dtype(state.flows[*places_.lengths].tensor, DType::kInt64);
      run.lengths.assign(lengths.values<int64_t>().begin(), lengths.values<int64_t>().end());
    }
    for (size_t s = 0; s < places_.first.size(); ++s) {
      if (places_.first[s]) run.first[s] = {state.values(*places_.first[s]), is_shared_[s]};
    }
    for (size_t i = 0; i <= places_.layer->states(); ++i) run.results[i] = state.values(places_.results[i]);
    places_.layer->run(run);
  }

 private:
  RecurrentPlaces places_;
  int64_t steps_ = 0;
  int64_t samples_ = 0;
  bool one_input_ = false;
  std::array<bool, 2> is_shared_ = {};
};

}  // namespace

std::unique_ptr<EngineStep> recurrent_step(RecurrentPlaces places) {
  return std::make_unique<RecurrentStep>(std::move(places));
}

}  // namespace detent
