#include "detent/training/sparse_layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// The weights of a layer, a row an output.
at::Tensor rows_of(const at::Tensor& weight) { return weight.view({weight.size(0), -1}); }

/// 1 where a row has one of its `count` largest numbers.
at::Tensor largest_of_rows(const at::Tensor& numbers, int64_t count) {
  if (count >= numbers.size(1)) return at::ones_like(numbers);
  const at::Tensor places = std::get<1>(numbers.topk(count, 1));
  return at::zeros_like(numbers).scatter_(1, places, 1.0);
}

std::vector<const Node*> sparse_nodes(const Graph& graph) {
  std::vector<const Node*> nodes;
  for (const Node& node : graph.nodes()) {
    const auto* sum = trait<WeightedSum>(node);
    if (sum != nullptr && !sum->transposed) nodes.push_back(&node);
  }
  return nodes;
}

int64_t fan_in_of(const TrainingOptions& options, size_t layer) {
  if (options.fan_in.empty()) return 0;
  return options.fan_in.size() == 1 ? options.fan_in[0] : options.fan_in[layer];
}

}  // namespace

SparseLayers::SparseLayers(const Graph& graph, std::span<const NamedParameter> parameters,
                           const TrainingOptions& options, int64_t total_steps, bool resumed) {
  const bool is_given = options.connections == ConnectionChoice::kGiven;
  if (options.fan_in.empty() && !is_given) return;
  const std::vector<const Node*> nodes = sparse_nodes(graph);
  if (options.fan_in.size() > 1 && options.fan_in.size() != nodes.size())
    fail("fan_in: got {} numbers, expected one, or one for each of the {} layers of graph \"{}\"",
         options.fan_in.size(), nodes.size(), graph.name());
  for (const int64_t fan_in : options.fan_in)
    if (fan_in < 0) fail("fan_in: got {}, expected at least 1, or 0 for any number", fan_in);
  if (options.connections == ConnectionChoice::kGradual) {
    if (options.ema_decay > 0)
      fail("ema_decay: averages keep connections that are gone; expected 0 with connections = \"gradual\"");
    pruning_steps_ = std::llround(options.pruning_share * static_cast<double>(total_steps));
  }
  const at::NoGradGuard no_gradients;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string key = nodes[i]->parameter_key("weight");
    const auto found = std::ranges::find(parameters, key, &NamedParameter::first);
    if (found == parameters.end()) continue;  // not trained
    const at::Tensor& weight = found->second;
    Layer layer{weight, rows_of(weight).ne(0).to(at::kFloat), fan_in_of(options, i)};
    if (layer.fan_in == 0 && !is_given) continue;
    if (layer.fan_in > 0 && !resumed && options.connections != ConnectionChoice::kGradual) {
      const bool is_random = options.connections == ConnectionChoice::kRandom;
      const at::Tensor order = is_random ? at::rand_like(layer.mask) : rows_of(weight).abs();
      layer.mask.mul_(largest_of_rows(order, layer.fan_in));
      rows_of(weight).mul_(layer.mask);
    }
    layers_.push_back(std::move(layer));
  }
}

void SparseLayers::resume() {
  const at::NoGradGuard no_gradients;
  for (Layer& layer : layers_) layer.mask = rows_of(layer.weight).ne(0).to(at::kFloat);
}

int64_t SparseLayers::kept(const Layer& layer, int64_t step) const {
  const int64_t all = layer.mask.size(1);
  if (is_done(step)) return std::min(all, layer.fan_in);
  const double left = 1 - static_cast<double>(step) / static_cast<double>(pruning_steps_);
  return layer.fan_in +
         std::llround(static_cast<double>(std::max<int64_t>(all - layer.fan_in, 0)) * left * left * left);
}

void SparseLayers::mask_gradients() const {
  for (const Layer& layer : layers_) {
    if (layer.weight.grad().defined()) rows_of(layer.weight.grad()).mul_(layer.mask);
  }
}

void SparseLayers::after_step(int64_t step) {
  constexpr int64_t kPrunings = 200;
  const int64_t every = std::max<int64_t>(1, pruning_steps_ / kPrunings);
  const bool prunes =
      pruning_steps_ > 0 && step <= pruning_steps_ && (step % every == 0 || step == pruning_steps_);
  const at::NoGradGuard no_gradients;
  for (Layer& layer : layers_) {
    const at::Tensor rows = rows_of(layer.weight);
    rows.mul_(layer.mask);
    if (!prunes || layer.fan_in == 0) continue;
    layer.mask.mul_(largest_of_rows(rows.abs(), kept(layer, step)));
    rows.mul_(layer.mask);
  }
}

}  // namespace detent
