#include "detent/core/error.h"
#include "detent/formats/format.h"
#include "detent/passes/passes.h"
#include "detent/passes/reconstruction/adaround.h"
#include "detent/passes/reconstruction/round_weights.h"

// Learns for each quantized weight whether to round it up or down (Nagel et al. 2020, arXiv:2004.10568):
//
//     linear, conv with a spec of weight, any weight  ->  the same with a weight that the spec holds exactly
//
// See reconstruction/round_weights.h for what is common with gptq.

namespace detent {
namespace {

struct AdaroundPassOptions : CalibrationInputOptions {
  AdaRoundOptions adaround;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    AdaRoundOptions::fields(self.adaround, visit);
    CalibrationInputOptions::fields(self, visit);
  }
  void check_graph(const Graph& graph, const EarlierPasses& earlier, const std::string& where) const {
    if (!earlier.quantize) check_weights_to_round(graph, where);
  }
};

void run_adaround(Graph& graph, const AdaroundPassOptions& options, PassContext& context) {
  const auto rounding = [&](const QuantSpec& spec, const Node& layer,
                            const std::string& place) -> WeightRounding {
    if (block_size(spec.format)) {
      fail(
          "{}: {}: the scale of a block follows its largest element, which rounding up or down can change; "
          "expected a format with fixed parameters, such as affine or fixed, or the pass gptq",
          place, format_name(spec.format));
    }
    const ValueGrid grid(spec, layer.find_parameter("weight")->tensor, place);
    return {grid.spec(), [grid, &options](const InputMoments& inputs, const std::string& /*where*/,
                                          Tensor& weight, int64_t row_begin, int64_t row_end) {
              adaround(inputs.gram, grid, options.adaround, weight, row_begin, row_end);
            }};
  };
  round_weights(graph, options, context, RoundingTarget::kSameInputs, rounding);
}

}  // namespace

PassInfo adaround_pass() {
  return make_pass("adaround", PassKind::kTransform,
                   "learns for each quantized weight whether to round it up or down", run_adaround,
                   PassStage::kRoundingWeights);
}

}  // namespace detent
