#include "detent/formats/format.h"
#include "detent/passes/passes.h"
#include "detent/passes/reconstruction/gptq.h"
#include "detent/passes/reconstruction/round_weights.h"

// Chooses the values of quantized weights by GPTQ (Frantar et al. 2022, arXiv:2210.17323):
//
//     linear, conv with a spec of weight, any weight  ->  the same with a weight that the spec holds exactly
//
// See reconstruction/round_weights.h for what is common with adaround.

namespace detent {
namespace {

struct Options : CalibrationInputOptions {
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

void run_gptq(Graph& graph, const Options& options, PassContext& context) {
  const auto rounding = [&](const QuantSpec& spec, const auto& values) -> WeightRounding {
    return {spec, [values, &options](const Matrix<double>& gram, const std::string& where, Tensor& weight,
                                     int64_t row_begin, int64_t row_end) {
              gptq_round(gram, values, options.gptq, where, weight, row_begin, row_end);
            }};
  };
  round_weights(graph, options, context,
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
                   run_gptq, PassStage::kRoundingWeights);
}

}  // namespace detent
