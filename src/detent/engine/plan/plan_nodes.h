#pragma once

#include <map>
#include <set>
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
/// The same of weights that share scales in blocks.
void plan_blocks(PlanBuilder& plan, const ProgramWeights& weights, std::span<const ReferenceStep> steps,
                 const FusedLayer& fused);

/// Layers in float32 with what their kernels compute on their sums, by the last step of each. `layers` have
/// kernels; what `shown` needs is no value on the way.
std::map<size_t, std::vector<size_t>> fused_float_layers(std::span<const ReferenceStep> steps,
                                                         std::span<const size_t> layers,
                                                         const ValueTypes& values, const ShownValues& shown);
/// `pad`, if there is one, puts zeros around what the layer reads.
void plan_float_layer(PlanBuilder& plan, const ProgramWeights& weights, std::span<const ReferenceStep> steps,
                      std::span<const size_t> fused, const ReferenceStep* pad);
/// By the first step of a layer in float32, the step that puts zeros around the positions which only the
/// layer reads.
std::map<size_t, size_t> folded_pads(std::span<const ReferenceStep> steps, std::span<const size_t> layers,
                                     const ValueTypes& values, const ShownValues& shown);
/// The same of layers on bytes.
std::map<size_t, size_t> folded_code_pads(std::span<const ReferenceStep> steps,
                                          std::span<const size_t> layers, const ValueTypes& values,
                                          const ShownValues& shown);
/// The window with the zeros that such a step puts around.
WindowShape with_zeros_around(WindowShape window, const Node& pad, const ValueTypes& values);
/// A transposed convolution: a step for each of its phases; false where these are not packed.
bool plan_transposed_floats(PlanBuilder& plan, const ProgramWeights& weights, const ReferenceStep& step,
                            const std::string& result);
/// Another node in float32; false where a kernel would not spare copies. Its tensors are placeable.
bool plan_values(PlanBuilder& plan, const ReferenceStep& step, const ValueTypes& values,
                 const std::string& result);

/// 8-bit integers of one known scale that become codes of a value, or back; false where others do.
bool plan_integer_codes(PlanBuilder& plan, const ReferenceStep& step, const std::string& result);

/// A node that adds products of integers (packed_code_sums.h), with what its kernel computes on its sums: an
/// addition of integers, a conversion to floats, a product.
struct CodeChain {
  size_t layer;
  size_t last;
  std::optional<size_t> bias = {};
  std::optional<size_t> conversion = {};
  std::optional<size_t> scaling = {};
};
/// By the last step; what `shown` needs is no value on the way, and others compute the steps `taken`.
std::map<size_t, CodeChain> code_chains(std::span<const ReferenceStep> steps, const ProgramWeights& weights,
                                        const ValueTypes& values, const ShownValues& shown,
                                        const std::set<size_t>& taken);
/// Steps that make bytes of floats which only such nodes read, and in what layout.
std::map<size_t, Layout> dynamic_bytes(std::span<const ReferenceStep> steps, const ProgramWeights& weights,
                                       const std::map<size_t, CodeChain>& chains);
/// One of these; false where the floats are in no place.
bool plan_dynamic_bytes(PlanBuilder& plan, const ReferenceStep& step, Layout layout);
void plan_code_chain(PlanBuilder& plan, const ProgramWeights& weights, std::span<const ReferenceStep> steps,
                     const CodeChain& chain);

/// Positions that are weighted sums of positions; false where there is no kernel for it.
bool plan_resampled(PlanBuilder& plan, const ReferenceStep& step, const std::string& result);
/// Dimensions of which one element is left; false where there is no kernel for it.
bool plan_reduced(PlanBuilder& plan, const ReferenceStep& step, const std::string& result);

/// Whether a step that computes in float can read an operand in a place, as codes of the type that it asks
/// for or as values.
bool has_operand_values(const PlanBuilder& plan, const ReferenceStep& step, size_t index);
/// That place.
size_t operand_values(PlanBuilder& plan, const ReferenceStep& step, size_t index,
                      std::optional<Layout> layout);
/// Values at `from`, rounded to the step's type if it has one, are the result.
void set_values(PlanBuilder& plan, const ReferenceStep& step, size_t from, const std::string& result);
/// A function of two operands that broadcast, in float32; false where one of them has no values in a place.
bool plan_value_pairs(PlanBuilder& plan, const ReferenceStep& step, const std::string& result);
/// The same of a function that is given.
bool plan_value_pairs(PlanBuilder& plan, const ReferenceStep& step, PairFunction function,
                      const std::string& result);
/// Comparisons of values of which only a conversion to float32 reads the results, as spikes of neurons are,
/// by the step that converts; what `shown` needs is none of them.
std::map<size_t, size_t> counted_comparisons(std::span<const ReferenceStep> steps, const ValueTypes& values,
                                             const ShownValues& shown);
/// Both as one; false where an operand has no values in a place.
bool plan_counted(PlanBuilder& plan, const ReferenceStep& comparison, const ReferenceStep& conversion);
/// A recurrent layer whose weights are packed; false where its operands are in no places.
bool plan_recurrent(PlanBuilder& plan, const ProgramWeights& weights, const ReferenceStep& step);

/// A node that rounds each value by itself to a format, as a function of elements; nullopt of others.
std::optional<FloatRows> rounding_function(const ReferenceStep& step);
/// A node that rounds values to a format; false where they are in no place.
bool plan_rounding(PlanBuilder& plan, const ReferenceStep& step, const std::string& result);

/// Values at the place `from`, rounded to codes of `type`, are the result.
void plan_rounded(PlanBuilder& plan, size_t from, const CodeType& type, const Node& node,
                  const std::string& result);

/// The same of steps of a wide type.
void plan_rounded_steps(PlanBuilder& plan, size_t from, const CodeType& type, const Node& node,
                        const std::string& result);

/// Moves elements of codes of `type`, or of values; false where there is no kernel for it.
bool plan_movement(PlanBuilder& plan, const ReferenceStep& step, const std::optional<CodeType>& type,
                   const std::string& result);
/// Values of which all are moved and then rounded to codes: they are rounded first. False of others.
bool plan_rounded_movement(PlanBuilder& plan, const ReferenceStep& step, const std::string& result);
/// Several results, each a part of the input; false where one of them lies in no place.
bool plan_parts(PlanBuilder& plan, const ReferenceStep& step);
/// Joins inputs along a dimension, whatever types they have; false where there is no kernel for it.
bool plan_joined(PlanBuilder& plan, const ReferenceStep& step, const std::string& result);
/// A product of matrices of values, which those of codes may be.
bool plan_float_product(PlanBuilder& plan, const ReferenceStep& step, const std::string& result);

/// Whether each window of a pooling covers positions, and counts some.
bool have_elements(const PoolingWindows& windows);
/// Positions that the largest of them covers.
int64_t most_elements(const PoolingWindows& windows);

// A node of one result, on bytes; false where there is no kernel for it. Its tensors are placeable.

/// A transposed convolution: a step for each of its phases.
bool plan_transposed(PlanBuilder& plan, const ProgramWeights& weights, const ReferenceStep& step,
                     const std::string& result);
/// A node of codes of more than 8 bits, which places have as their values: pairs in float, functions of one
/// operand, means, and what leaves codes in their type.
bool plan_wide(PlanBuilder& plan, const ReferenceStep& step, const std::string& result);
bool plan_table(PlanBuilder& plan, const ReferenceStep& step, const std::string& result);
bool plan_pairs(PlanBuilder& plan, const ProgramWeights& weights, const ReferenceStep& step,
                const std::string& result);
bool plan_product(PlanBuilder& plan, const ReferenceStep& step, const std::string& result);
bool plan_mean(PlanBuilder& plan, const ReferenceStep& step, const std::string& result);
/// Rectifiers, the largest of windows, views, movements: what leaves codes in their type.
bool plan_moved(PlanBuilder& plan, const ReferenceStep& step, const std::string& result);

}  // namespace detent
