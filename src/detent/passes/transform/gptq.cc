#include "detent/formats/format.h"
#include "detent/passes/passes.h"
#include "detent/passes/reconstruction/gptq.h"
#include "detent/passes/reconstruction/round_weights.h"

// Chooses the values of quantized weights by GPTQ (Frantar et al. 2022, arXiv:2210.17323):
//
//     linear, conv with a spec of weight, any weight  ->  the same with a weight that the spec holds exactly
//
// gptq keeps what a layer gives for the inputs that it gets from the quantized network; gptaq makes up for
// what quantization before the layer has changed too, as far as the layer can: its outputs are to be near to
// those of the float network (Li et al. 2025, arXiv:2504.02692).
//
// See reconstruction/round_weights.h for what is common with adaround.

namespace detent {
namespace {

struct GptqPassOptions : CalibrationInputOptions {
  GptqOptions gptq;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    GptqOptions::fields(self.gptq, visit);
    CalibrationInputOptions::fields(self, visit);
  }
  void check_graph(const Graph& graph, const EarlierPasses& earlier, const std::string& where) const {
    if (!earlier.quantize) check_weights_to_round(graph, where);
  }
};

GptqColumns columns_for(const ValueGrid& /*grid*/, const Matrix<double>& gram, const GptqOptions& options,
                        const std::string& where) {
  return {gram, options, where};
}

GptqColumns columns_for(const BlockRounding& rounding, const Matrix<double>& gram, const GptqOptions& options,
                        const std::string& where) {
  return block_columns(gram, rounding, options, where);
}

template <RoundingTarget kTarget>
void run(Graph& graph, const GptqPassOptions& options, PassContext& context) {
  const auto rounding = [&](const QuantSpec& spec, const auto& values) -> WeightRounding {
    return {spec, [values, &options](const InputMoments& inputs, const std::string& where, Tensor& weight,
                                     int64_t row_begin, int64_t row_end) {
              const GptqColumns columns = columns_for(values, inputs.gram, options.gptq, where);
              if constexpr (kTarget == RoundingTarget::kFloatNetwork)
                match_float_outputs(columns, inputs.shift, weight, row_begin, row_end);
              gptq_round(columns, values, where, weight, row_begin, row_end);
            }};
  };
  round_weights(graph, options, context, kTarget,
                [&](const QuantSpec& spec, const Tensor& weight, const std::string& where) {
                  if (block_size(spec.format)) {
                    return rounding(spec, BlockRounding(spec, weight.shape(), where));
                  }
                  const ValueGrid grid(spec, weight, where);
                  return rounding(grid.spec(), grid);
                });
}

}  // namespace

PassInfo gptq_pass() {
  return make_pass("gptq", PassKind::kTransform,
                   "chooses the values of quantized weights column by column, later ones making up for the "
                   "errors of earlier ones",
                   run<RoundingTarget::kSameInputs>, PassStage::kRoundingWeights);
}

PassInfo gptaq_pass() {
  return make_pass(
      "gptaq", PassKind::kTransform,
      "chooses the values of quantized weights as gptq does, so that a layer's outputs are those "
      "of the float network, errors of earlier layers made up for (asymmetric calibration)",
      run<RoundingTarget::kFloatNetwork>, PassStage::kRoundingWeights);
}

}  // namespace detent
