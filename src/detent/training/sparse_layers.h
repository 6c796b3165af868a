#pragma once

#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "detent/graph/graph.h"
#include "detent/training/optimizer.h"
#include "detent/training/options.h"

namespace detent {

/// Layers whose outputs have few inputs: a weight that is 0 is no connection (graph/connections.h), and stays
/// none. Which ones an output keeps is drawn at random, decided by the magnitudes of the weights that
/// training begins with, given by their zeros, or learned: then all but the largest `fan_in` go one after
/// another, in the first `pruning_share` of the training. With n weights an output keeps, when a share u of
/// these steps is over, fan_in + (n - fan_in) (1 - u)^3 of them (Zhu and Gupta 2017, arXiv:1710.01878). The
/// weights are all that there is to know, so that a training can be resumed anywhere.
class SparseLayers {
 public:
  /// Prunes what is due at once, unless the training is `resumed`. `parameters` are the graph's, by name.
  /// Throws Error where there are other numbers of fan-ins than layers.
  SparseLayers(const Graph& graph, std::span<const NamedParameter> parameters, const TrainingOptions& options,
               int64_t total_steps, bool resumed);

  /// Takes the connections of a network that was loaded in the meantime.
  void resume();
  /// Weights that are no connections have no gradient.
  void mask_gradients() const;
  /// Keeps them 0 after optimizer step `step` (from 1), and prunes what is due by then.
  void after_step(int64_t step);
  /// Whether every output has as few inputs as it shall have, after as many steps.
  bool is_done(int64_t step) const { return step >= pruning_steps_; }

 private:
  struct Layer {
    at::Tensor weight;
    at::Tensor mask;  // float32, [outputs, inputs]
    int64_t fan_in;   // 0: any number
  };

  int64_t kept(const Layer& layer, int64_t step) const;

  std::vector<Layer> layers_;
  int64_t pruning_steps_ = 0;
};

}  // namespace detent
