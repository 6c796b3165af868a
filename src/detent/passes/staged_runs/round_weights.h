#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "detent/formats/quant_spec.h"
#include "detent/graph/graph.h"
#include "detent/passes/pass.h"
#include "detent/passes/staged_runs/staged_run.h"
#include "detent/reconstruction/gram.h"

namespace detent {

/// Rounds some rows of a weight, in place. `inputs`: of these rows. `where` says which layer it is.
using RoundRows = std::function<void(const InputMoments& inputs, const std::string& where, Tensor& weight,
                                     int64_t row_begin, int64_t row_end)>;

/// Rounding of a layer's weight, and the spec for the chosen values.
struct WeightRounding {
  QuantSpec spec;
  RoundRows round;
};
/// For a layer's weight and its spec. Throws Error, beginning with `where`, if the format does not fit.
using MakeWeightRounding =
    std::function<WeightRounding(const QuantSpec& spec, const Node& layer, const std::string& where)>;

/// "23.41" dB of signal to noise, "exact" without noise, "-inf" without a signal: for tables of layers.
std::string decibel(double signal, double noise);

/// Throws Error, beginning with `where`, unless a linear layer or convolution has a quantized weight.
void check_weights_to_round(const Graph& graph, const std::string& where);

/// Target of a layer's outputs, given the inputs from the quantized network.
enum class RoundingTarget {
  kSameInputs,   // what the layer gave with these inputs before it was rounded
  kFloatNetwork  // what the float network gives
};

/// Replaces the weights of each linear layer and convolution whose weight has a spec by values that this spec
/// can hold, as `make` says. First all specs get the parameters that the weights give them now, so
/// that the choice does not move them. Then layers are rounded in execution order, each with the inputs that
/// it gets from the network with the earlier layers already rounded and activations quantized. Reports each
/// layer's signal to noise ratio, beside the target, with weights rounded to nearest and as chosen. The
/// network as it was becomes context.float_network, unless there is one. Throws Error, and leaves the graph
/// as it was, where no weight has a spec and where a format does not fit.
void round_weights(Graph& graph, const CalibrationInputOptions& options, PassContext& context,
                   RoundingTarget target, const MakeWeightRounding& make);

/// Moments of the inputs of a layer, the node at `index`, by group. Both runs go on to the layer; with
/// `in_float`, a run of the network in float, there are shifts.
std::vector<InputMoments> input_moments(const Node& layer, size_t index, StagedRun& run, StagedRun* in_float,
                                        const std::string& where);

/// Cost of choosing the values of all weights, and of correcting the biases after it, in products: for each
/// sample, and whatever the samples.
struct ChoosingCost {
  double per_sample = 0;
  double fixed = 0;
  double per_step = 0;  // each weight times the second moments, as steps of signround take it

  double of(double samples) const { return fixed + samples * per_sample; }
  /// Below 0 where nothing is left for samples.
  double samples_for(double products) const { return (products - fixed) / per_sample; }
};

/// The cost of gptq (kSameInputs) or gptaq (kFloatNetwork), where the named dimensions have these sizes.
ChoosingCost choosing_cost(const Graph& network, RoundingTarget target, const NamedSizes& sizes = {});

}  // namespace detent
