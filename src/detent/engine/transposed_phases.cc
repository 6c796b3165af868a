#include "detent/engine/transposed_phases.h"

#include <algorithm>

#include "detent/graph/accumulator.h"
#include "detent/graph/connections.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/float_nodes.h"

namespace detent {
namespace {

/// A layer's kernel in one dimension.
struct KernelDim {
  int64_t size = 1, stride = 1, padding = 0, dilation = 1;
};

/// The taps that reach the results first, first + stride, ... of that dimension.
struct PhaseDim {
  std::vector<int64_t> taps;
  int64_t padding;
  int64_t dilation = 1;
};

/// Input o adds tap k to result o * stride - padding + k * dilation. So result first + i * stride takes tap k
/// of input begin + i - (k * dilation - rest) / stride.
PhaseDim phase_of(const KernelDim& dim, int64_t first) {
  const int64_t rest = (first + dim.padding) % dim.stride;
  const int64_t begin = (first + dim.padding) / dim.stride;
  PhaseDim phase{{}, -begin};
  for (int64_t k = dim.size; k-- > 0;) {
    if (k * dim.dilation % dim.stride == rest) phase.taps.push_back(k);
  }
  if (phase.taps.empty()) {
    phase.taps.push_back(-1);
    return phase;
  }
  phase.padding = (phase.taps.front() * dim.dilation - rest) / dim.stride - begin;
  if (phase.taps.size() > 1) phase.dilation = (phase.taps[0] - phase.taps[1]) * dim.dilation / dim.stride;
  return phase;
}

/// Depth, height, width.
std::vector<KernelDim> kernel_dims(const Node& node) {
  const size_t count = trait<WeightedSum>(node)->spatial_dims;
  const Shape& weight = node.find_parameter("weight")->tensor.shape();
  const auto stride = integers_attribute(node, "stride", count);
  const auto padding = integers_attribute(node, "padding", count);
  const auto dilation = integers_attribute(node, "dilation", count);
  std::vector<KernelDim> dims(3);
  for (size_t i = 0; i < count; ++i)
    dims[3 - count + i] = {weight[2 + i], stride[i], padding[i], dilation[i]};
  return dims;
}

std::vector<int64_t> taps_of(const std::vector<KernelDim>& dims, const PhaseDim& z, const PhaseDim& y,
                             const PhaseDim& x) {
  std::vector<int64_t> taps;
  for (const int64_t k : z.taps) {
    for (const int64_t j : y.taps) {
      for (const int64_t i : x.taps)
        taps.push_back(k < 0 || j < 0 || i < 0 ? -1 : (k * dims[1].size + j) * dims[2].size + i);
    }
  }
  return taps;
}

/// Calls `visit(phase weight, node's weight)` with the places of the weights of a phase: [output, input of
/// the group, position] and [input, output of the group, tap].
template <class Visit>
void for_each_weight(const std::vector<int64_t>& taps, const Shape& shape, int64_t groups,
                     const Visit& visit) {
  const int64_t inputs = shape[0] / groups;
  const int64_t outputs = shape[1];  // of a group
  const int64_t tap_count = element_count({shape.begin() + 2, shape.end()});
  const auto positions = std::ssize(taps);
  for (int64_t o = 0; o < groups * outputs; ++o) {
    for (int64_t i = 0; i < inputs; ++i) {
      const int64_t pair = (o / outputs * inputs + i) * outputs + o % outputs;
      for (int64_t p = 0; p < positions; ++p) {
        const int64_t tap = taps[static_cast<size_t>(p)];
        if (tap >= 0)
          visit(static_cast<size_t>((o * inputs + i) * positions + p),
                static_cast<size_t>(pair * tap_count + tap));
      }
    }
  }
}

Shape phase_shape(const std::vector<int64_t>& taps, const Shape& shape, int64_t groups) {
  return {shape[1] * groups, shape[0] / groups, std::ssize(taps)};
}

/// Which results a phase gives, of which window and taps.
struct PhaseWindow {
  ResultGrid grid;
  WindowShape window;
  std::vector<int64_t> taps;
};

std::vector<PhaseWindow> phase_windows(const Node& node) {
  const std::vector<KernelDim> dims = kernel_dims(node);
  std::vector<PhaseWindow> phases;
  const int64_t count = dims[0].stride * dims[1].stride * dims[2].stride;
  for (int64_t i = 0; i < count; ++i) {
    const ResultGrid grid{.first_z = i / dims[2].stride / dims[1].stride,
                          .first_y = i / dims[2].stride % dims[1].stride,
                          .first_x = i % dims[2].stride,
                          .step_z = dims[0].stride,
                          .step_y = dims[1].stride,
                          .step_x = dims[2].stride};
    const PhaseDim z = phase_of(dims[0], grid.first_z);
    const PhaseDim y = phase_of(dims[1], grid.first_y);
    const PhaseDim x = phase_of(dims[2], grid.first_x);
    phases.push_back({grid,
                      {.depth = std::ssize(z.taps),
                       .height = std::ssize(y.taps),
                       .width = std::ssize(x.taps),
                       .padding_z = z.padding,
                       .padding_y = y.padding,
                       .padding_x = x.padding,
                       .dilation_z = z.dilation,
                       .dilation_y = y.dilation,
                       .dilation_x = x.dilation},
                      taps_of(dims, z, y, x)});
  }
  return phases;
}

/// The weight of a phase, [output, input of a group, position of its window].
template <class T>
Tensor phase_weight(const Tensor& weight, const std::vector<int64_t>& taps, int64_t groups) {
  Tensor part(weight.dtype(), phase_shape(taps, weight.shape(), groups));
  const auto to = part.values<T>();
  const auto from = weight.values<T>();
  for_each_weight(taps, weight.shape(), groups, [&](size_t own, size_t whole) { to[own] = from[whole]; });
  return part;
}

}  // namespace

std::vector<TransposedPhase> transposed_phases(const SumForm& form, const Node& node,
                                               const KernelSet& kernels) {
  const int64_t groups = integer_attribute(node, "groups");
  std::vector<TransposedPhase> phases;
  for (PhaseWindow& phase : phase_windows(node)) {
    SumForm part = form;
    part.weight = phase_weight<int32_t>(form.weight, phase.taps, groups);
    const WindowLayer layer{.window = phase.window, .groups = groups, .is_phase = true};
    phases.push_back({std::make_shared<const PackedSums>(packed_windows(part, layer, kernels)), phase.grid,
                      std::move(phase.taps)});
  }
  return phases;
}

std::vector<TransposedFloatPhase> transposed_float_phases(const ReferenceStep& step) {
  const Node& node = *step.node;
  const auto* layer = trait<WeightedSum>(node);
  if (layer == nullptr || !layer->transposed || layer->spatial_dims > 3 || !has_float_places(step) ||
      accumulator_of(node))
    return {};
  const NamedTensors parameters = rounded_parameters(node);
  const FloatNode operands{node, {}, parameters};
  const Tensor weight = *operands.parameter("weight");
  const std::span<const float> bias = operands.values_of("bias");
  if (weight.numel() == 0 || ordered_connections(node, weight) ||
      !ignores_zeros(weight.values<float>(), bias))
    return {};
  const int64_t groups = integer_attribute(node, "groups");
  std::vector<TransposedFloatPhase> phases;
  for (const PhaseWindow& phase : phase_windows(node)) {
    if (std::ranges::find(phase.taps, -1) != phase.taps.end()) return {};
    const FloatWindowLayer window{.window = phase.window, .groups = groups};
    phases.push_back({std::make_shared<const PackedFloatSums>(packed_float_windows(
                          phase_weight<float>(weight, phase.taps, groups), bias, window)),
                      phase.grid});
  }
  return phases;
}

Tensor unpacked_weights(const std::vector<TransposedPhase>& phases, const Node& node, const Shape& shape) {
  const int64_t groups = integer_attribute(node, "groups");
  Tensor weights(DType::kInt32, shape);
  const auto to = weights.values<int32_t>();
  for (const TransposedPhase& phase : phases) {
    const Tensor part = unpacked_weights(*phase.packed, phase_shape(phase.taps, shape, groups));
    const auto from = part.values<int32_t>();
    for_each_weight(phase.taps, shape, groups, [&](size_t own, size_t whole) { to[whole] = from[own]; });
  }
  return weights;
}

}  // namespace detent
