#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/engine/packed_blocks.h"
#include "detent/engine/packed_code_sums.h"
#include "detent/engine/packed_float_sums.h"
#include "detent/engine/step.h"
#include "detent/engine/transposed_phases.h"
#include "detent/graph/operators.h"
#include "detent/inference/flow.h"
#include "detent/inference/node_form.h"

namespace detent {

/// The weights of layers in the order of the kernels, by node; shared by the plans of a program.
using PackedLayers = std::map<std::string, std::shared_ptr<const PackedSums>, std::less<>>;
using PackedBlockLayers = std::map<std::string, std::shared_ptr<const PackedBlocks>, std::less<>>;
using PackedPhases = std::map<std::string, std::shared_ptr<const std::vector<TransposedPhase>>, std::less<>>;
using PackedFloatPhases =
    std::map<std::string, std::shared_ptr<const std::vector<TransposedFloatPhase>>, std::less<>>;
using PackedFloatLayers = std::map<std::string, std::shared_ptr<const PackedFloatSums>, std::less<>>;
/// Results of pairs of bytes that no kernel computes, likewise.
using PairTables = std::map<std::string, std::shared_ptr<const std::vector<uint8_t>>, std::less<>>;
struct ProgramWeights {
  PackedLayers layers = {};
  PackedPhases transposed_layers = {};
  PackedBlockLayers block_layers = {};
  PackedFloatLayers float_layers = {};
  PackedFloatPhases transposed_float_layers = {};
  PackedRecurrentLayers recurrent_layers = {};
  PackedCodeLayers code_layers = {};
  PairTables pair_tables = {};

  /// Whether the forms of the reference have lost the node's weights.
  bool contain(const std::string& node) const {
    return layers.contains(node) || transposed_layers.contains(node) || block_layers.contains(node);
  }
};

/// Plan of a program for inputs of certain shapes: steps in order, and where their values lie.
struct ProgramPlan {
  std::vector<std::unique_ptr<EngineStep>> steps;
  std::vector<Place> places;
  int64_t arena_bytes = 0;
  size_t flow_count = 0;
  std::vector<size_t> inputs;   // flows
  std::vector<size_t> outputs;  // flows
};

/// The step of a layer whose form has lost its weights, with them.
ReferenceStep with_weights(const ReferenceStep& step, const ProgramWeights& weights);

/// A program for inputs of any shapes; the forms of packed layers have no weights. Plans refer to it.
struct ProgramParts {
  const ReferencePlan& reference;
  const ProgramWeights& weights;
  const KernelSet& kernels;
};

/// A value that steps before the first of a plan compute.
struct EarlierValue {
  std::string name;
  std::optional<CodeType> type = {};
  std::optional<Flow> known = {};  // follows from shapes and constants; the others are the plan's inputs
};

/// The steps of a plan: all from `first` on.
struct PlannedSteps {
  size_t first = 0;
  std::vector<EarlierValue> values = {};  // that they read
};

/// `types` of the values, as shapes are inferred for the sizes at hand. Runs of the plan show what
/// `observation` says. Where convolutions, products or recurrent layers have sizes that only a run knows, the
/// plan ends before the first of them with a step that plans the rest (deferred_plan.h).
ProgramPlan plan_program(const ProgramParts& program, const PlannedSteps& steps, const ValueTypes& types,
                         const Observation& observation);

/// Why the kernels cannot compute a product of inputs of these shapes; "" when they can.
std::string why_not_multiplied(const ProductForm& form, const Shape& a, const Shape& b);

}  // namespace detent
