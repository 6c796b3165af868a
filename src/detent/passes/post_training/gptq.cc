#include <algorithm>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "detent/core/error.h"
#include "detent/formats/format.h"
#include "detent/passes/passes.h"
#include "detent/passes/staged_runs/round_weights.h"
#include "detent/reconstruction/bounded_sums.h"
#include "detent/reconstruction/gptq.h"

// Chooses the values of quantized weights by GPTQ (Frantar et al. 2022, arXiv:2210.17323):
//
//     linear, conv with a spec of weight, any weight  ->  the same with a weight that the spec holds exactly
//
// gptq keeps what a layer gives for the inputs that it gets from the quantized network; gptaq makes up for
// what quantization before the layer has changed too, as far as the layer can: its outputs are to be near to
// those of the float network (Li et al. 2025, arXiv:2504.02692). qronos does the same with another first step
// (Zhang et al. 2025, arXiv:2505.11695): it rounds the first column to what is best while the others are as
// they were, not as the float network's outputs would have them.
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

enum class Method { kGptq, kGptaq, kQronos, kAxe };

/// Columns of the inputs that came last, for further layers that take the same.
struct LastColumns {
  int64_t number = 0;
  std::shared_ptr<const GptqColumns> columns = {};
};

/// Columns for the values; of a grid, which does not matter to them, those of the last inputs may do.
template <class Values>
std::shared_ptr<const GptqColumns> shared_columns(const Values& values, const InputMoments& inputs,
                                                  const GptqOptions& options, const std::string& where,
                                                  LastColumns& last) {
  constexpr bool kAreShared = std::is_same_v<Values, ValueGrid>;
  if (kAreShared && inputs.number > 0 && inputs.number == last.number) return last.columns;
  last = {};
  auto columns = std::make_shared<const GptqColumns>(columns_for(values, inputs.gram, options, where));
  if (kAreShared) last = {inputs.number, columns};
  return columns;
}

/// How the weights of a layer are rounded to `values`: those of a grid, or of blocks.
template <class Values>
WeightRounding rounding_to(const Values& values, Method method, const GptqOptions& options,
                           const std::shared_ptr<LastColumns>& last) {
  return {values.spec(),
          [values, method, &options, last](const InputMoments& inputs, const std::string& where,
                                           Tensor& weight, int64_t row_begin, int64_t row_end) {
            const auto shared = shared_columns(values, inputs, options, where, *last);
            const GptqColumns& columns = *shared;
            std::vector<double> first;
            if (method == Method::kQronos)
              first = best_first_columns(columns, inputs.shift, weight, row_begin, row_end);
            if (inputs.shift.rows() > 0)
              match_float_outputs(columns, inputs.shift, weight, row_begin, row_end);
            gptq_round(columns, values, where, weight, row_begin, row_end, first);
          }};
}

WeightRounding bounded_rounding(const QuantSpec& spec, BoundedSums sums, const GptqOptions& options) {
  return {spec, [sums = std::move(sums), &options](const InputMoments& inputs, const std::string& where,
                                                   Tensor& weight, int64_t row_begin, int64_t row_end) {
            gptq_round(GptqColumns(inputs.gram, options, where), sums, weight, row_begin, row_end);
          }};
}

void run_method(Method method, Graph& graph, const GptqPassOptions& options, PassContext& context) {
  const auto is_bounded = [&](const Node& node) { return bounded_sums(graph, node).has_value(); };
  if (method == Method::kAxe && std::ranges::none_of(graph.nodes(), is_bounded)) {
    fail(
        "{}: no layer that adds up products of codes has an accumulator of integers: `detent quantize "
        "--accumulator int16` gives them one",
        context.where);
  }
  const bool matches_float = method == Method::kGptaq || method == Method::kQronos;
  const auto last = std::make_shared<LastColumns>();
  round_weights(
      graph, options, context, matches_float ? RoundingTarget::kFloatNetwork : RoundingTarget::kSameInputs,
      [&](const QuantSpec& spec, const Node& layer, const std::string& where) {
        const Tensor& weight = layer.find_parameter("weight")->tensor;
        if (method == Method::kAxe) {
          if (std::optional<BoundedSums> sums = bounded_sums(graph, layer))
            return bounded_rounding(ValueGrid(spec, weight, where).spec(), std::move(*sums), options.gptq);
        }
        if (block_size(spec.format))
          return rounding_to(BlockRounding(spec, weight, where), method, options.gptq, last);
        return rounding_to(ValueGrid(spec, weight, where), method, options.gptq, last);
      });
}

template <Method kMethod>
void run(Graph& graph, const GptqPassOptions& options, PassContext& context) {
  run_method(kMethod, graph, options, context);
}

std::string obstacle_to_choosing(const QuantSpec& spec) {
  return block_size(spec.format) ? "" : ValueGrid::obstacle(spec);
}

template <Method kMethod>
PassInfo gptq_like_pass(std::string name, std::string help) {
  PassInfo pass = make_pass(std::move(name), PassKind::kTransform, std::move(help), run<kMethod>,
                            PassStage::kRoundingWeights);
  pass.weight_obstacle = obstacle_to_choosing;
  return pass;
}

}  // namespace

PassInfo gptq_pass() {
  return gptq_like_pass<Method::kGptq>(
      "gptq", "rounds weights column by column; later columns compensate for earlier errors");
}

PassInfo gptaq_pass() {
  return gptq_like_pass<Method::kGptaq>(
      "gptaq",
      "chooses the values of quantized weights as gptq does, so that a layer's outputs are those of the "
      "float network, errors of earlier layers made up for (asymmetric calibration)");
}

PassInfo qronos_pass() {
  return gptq_like_pass<Method::kQronos>(
      "qronos",
      "chooses the values of quantized weights as gptaq does, but begins with the value of the first column "
      "that is best beside the original weights of all others");
}

PassInfo axe_pass() {
  return gptq_like_pass<Method::kAxe>(
      "axe",
      "chooses the values of quantized weights as gptq does, with sums that the layers' accumulators of "
      "integers hold for all inputs");
}

}  // namespace detent
