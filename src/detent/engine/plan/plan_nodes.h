#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "detent/engine/fusion.h"
#include "detent/engine/plan/plan_builder.h"
#include "detent/engine/program_plan.h"

namespace detent {

/// A layer with what its kernel computes on its sums.
void plan_layer(PlanBuilder& plan, const ProgramWeights& weights, std::span<const ReferenceStep> steps,
                const FusedLayer& fused);

/// Layers in float32 with what their kernels compute on their sums, by the last step of each. `layers` have
/// kernels.
std::map<size_t, std::vector<size_t>> fused_float_layers(std::span<const ReferenceStep> steps,
                                                         std::span<const size_t> layers,
                                                         const ValueTypes& values);
void plan_float_layer(PlanBuilder& plan, const ProgramWeights& weights, std::span<const ReferenceStep> steps,
                      std::span<const size_t> fused);
/// Another node in float32; false where a kernel would not spare copies. Its tensors are placeable.
bool plan_values(PlanBuilder& plan, const ReferenceStep& step, const ValueTypes& values,
                 const std::string& result);

/// Whether each window of a pooling covers positions, and counts some.
bool have_elements(const PoolingWindows& windows);

// A node of one result, on bytes; false where there is no kernel for it. Its tensors are placeable.

/// A transposed convolution: a step for each of its phases.
bool plan_transposed(PlanBuilder& plan, const ProgramWeights& weights, const ReferenceStep& step,
                     const std::string& result);
/// A layer whose weights share scales in blocks.
bool plan_blocks(PlanBuilder& plan, const ProgramWeights& weights, const ReferenceStep& step,
                 const std::string& result);
bool plan_table(PlanBuilder& plan, const ReferenceStep& step, const std::string& result);
bool plan_pairs(PlanBuilder& plan, const ProgramWeights& weights, const ReferenceStep& step,
                const std::string& result);
bool plan_product(PlanBuilder& plan, const ReferenceStep& step, const std::string& result);
bool plan_mean(PlanBuilder& plan, const ReferenceStep& step, const std::string& result);
/// Rectifiers, the largest of windows, views, movements: what leaves codes in their type.
bool plan_moved(PlanBuilder& plan, const ReferenceStep& step, const std::string& result);

}  // namespace detent
