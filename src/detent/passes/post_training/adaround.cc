#include <utility>

#include "detent/core/error.h"
#include "detent/formats/format.h"
#include "detent/passes/passes.h"
#include "detent/passes/staged_runs/round_weights.h"
#include "detent/reconstruction/learned_rounding.h"

// Chooses for each quantized weight whether to round it up or down: adaround learns it with Adam and a term
// that drives choices apart (Nagel et al. 2020, arXiv:2004.10568), signround by the signs of gradients (Cheng
// et al. 2023, arXiv:2309.05516):
//
//     linear, conv with a spec of weight, any weight  ->  the same with a weight that the spec holds exactly
//
// See reconstruction/round_weights.h for what is common with gptq.

namespace detent {
namespace {

template <class MethodOptions>
struct UpOrDownOptions : CalibrationInputOptions {
  MethodOptions method;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    MethodOptions::fields(self.method, visit);
    CalibrationInputOptions::fields(self, visit);
  }
  void check_graph(const Graph& graph, const EarlierPasses& earlier, const std::string& where) const {
    if (!earlier.quantize) check_weights_to_round(graph, where);
  }
};

std::string obstacle_to_up_or_down(const QuantSpec& spec) {
  if (!block_size(spec.format)) return ValueGrid::obstacle(spec);
  return fmt::format(
      "{}: the scale of a block follows its largest element, which rounding up or down can change; expected "
      "a "
      "format with fixed parameters, such as affine or fixed, or the pass gptq",
      format_name(spec.format));
}

ValueGrid grid_of(const QuantSpec& spec, const Node& layer, const std::string& place) {
  const std::string obstacle = obstacle_to_up_or_down(spec);
  if (!obstacle.empty()) fail("{}: {}", place, obstacle);
  return {spec, layer.find_parameter("weight")->tensor, place};
}

template <class MethodOptions, auto kRound>
void run(Graph& graph, const UpOrDownOptions<MethodOptions>& options, PassContext& context) {
  const auto rounding = [&](const QuantSpec& spec, const Node& layer,
                            const std::string& place) -> WeightRounding {
    const ValueGrid grid = grid_of(spec, layer, place);
    return {grid.spec(), [grid, &options](const InputMoments& inputs, const std::string& /*where*/,
                                          Tensor& weight, int64_t row_begin, int64_t row_end) {
              kRound(inputs.gram, grid, options.method, weight, row_begin, row_end);
            }};
  };
  round_weights(graph, options, context, RoundingTarget::kSameInputs, rounding);
}

}  // namespace

PassInfo adaround_pass() {
  PassInfo pass = make_pass("adaround", PassKind::kTransform,
                            "learns for each quantized weight whether to round it up or down",
                            run<AdaRoundOptions, adaround>, PassStage::kRoundingWeights);
  pass.weight_obstacle = obstacle_to_up_or_down;
  return pass;
}

PassInfo signround_pass() {
  PassInfo pass =
      make_pass("signround", PassKind::kTransform,
                "learns for each quantized weight whether to round it up or down, by signed gradient descent",
                run<SignRoundOptions, signround>, PassStage::kRoundingWeights);
  pass.weight_obstacle = obstacle_to_up_or_down;
  return pass;
}

}  // namespace detent
