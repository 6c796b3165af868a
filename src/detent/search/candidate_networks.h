#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"
#include "detent/passes/analysis/variant_runs.h"
#include "detent/passes/pass.h"
#include "detent/passes/post_training/code_groups.h"
#include "detent/search/space.h"

namespace detent {

/// Makes the network of an assignment. All that does not depend on which formats stand together is computed
/// once: ranges of activations from one run of the float network, for each format of a weight its scales, the
/// values that the weight rule chooses and the bias that keeps the means of the layer's outputs, with the
/// calibrator that changes the layer's output least.
class CandidateNetworks {
 public:
  /// `network` is in float. Weights are to nearest at first, in ranges that suit them by themselves. Throws
  /// Error, beginning with context.where, where calibration does.
  CandidateNetworks(const Graph& network, const CodePlan& plan, const SearchSpace& space,
                    const SearchOptions& options, PassContext& context);

  /// Chooses the values of all weights; no more of them when `stop`, asked between layers, says so.
  void choose_weights(const SearchOptions& options, PassContext& context, const std::function<bool()>& stop);

  const Graph& network() const { return network_; }
  const SearchSpace& space() const { return space_; }

  /// Quantized, weights at the values that the weight rule chose.
  Graph make(const Assignment& assignment) const { return make(assignment, true); }
  /// The same with the float network's weights, for passes that choose their values.
  Graph make_unrounded(const Assignment& assignment) const { return make(assignment, false); }

  /// The float network with some operands in a format: (choice, format) each.
  Variant only(const std::vector<std::pair<size_t, int>>& quantized) const;
  /// The network of `assignment`, which is `made`, with another format for one choice.
  Variant changed(const Graph& made, const Assignment& assignment, size_t choice, int format) const;

 private:
  struct ChosenWeight {
    QuantSpec spec;              // for passes that choose the values
    QuantSpec rounding = spec;   // that holds `values`
    Tensor values;               // as the weight rule chose them; the float network's before that
    std::vector<double> shifts;  // that the bias takes back, of each output channel; empty: none
  };

  Graph make(const Assignment& assignment, bool rounded) const;
  void measure_activations(const CodePlan& plan, const SearchOptions& options, PassContext& context);
  /// Specs for one weight, a calibrator each; those that are equal once.
  std::vector<QuantSpec> calibrated_specs(const QuantSpec& spec, const Tensor& weight,
                                          const SearchOptions& options, const std::string& where) const;
  void calibrate_weights(const SearchOptions& options, const std::string& where);
  void set_weight(Graph& graph, size_t choice, int format, bool rounded) const;
  void set_group(Graph& graph, size_t group, const Assignment& assignment) const;

  Graph network_;
  const CodePlan& plan_;
  const SearchSpace& space_;
  std::map<size_t, size_t> input_choices_;  // by the position of the node
  /// By choice and format; none for float and for inputs.
  std::vector<std::vector<std::optional<ChosenWeight>>> weights_;
  /// By group and text of the format; float is not there.
  std::vector<std::map<std::string, QuantSpec>> activations_;
};

}  // namespace detent
