#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "detent/engine/plan/plan_builder.h"
#include "detent/engine/shown_values.h"
#include "detent/inference/reference_step.h"

namespace detent {

enum class TreeTest { kBelow, kNotAbove, kAbove, kNotBelow, kEqual };

/// Trees in one list of nodes.
struct WalkedTrees {
  struct Place {
    float threshold;
    int32_t feature;
    std::array<int32_t, 2> next;  // where the comparison fails, and where it holds
  };
  TreeTest test = TreeTest::kNotAbove;
  std::vector<int32_t> roots;
  std::vector<Place> places;
  std::vector<uint8_t> missing;  // 1 where NaN holds; empty: nowhere
  int64_t features = 0;
  int64_t depth = 0;
};

/// Steps that walk all trees of an ensemble from their roots, as the import of ONNX's TreeEnsemble writes
/// them: tables of all nodes, a level after the other. The last gives the leaves, [rows, trees].
struct TreeWalk {
  std::vector<size_t> steps;
  std::string rows;  // value whose columns the nodes compare
  std::shared_ptr<const WalkedTrees> trees;
};

/// By the last step; what `shown` needs is no value on the way.
std::map<size_t, TreeWalk> tree_walks(std::span<const ReferenceStep> steps, const ValueTypes& values,
                                      const ShownValues& shown);
void plan_tree_walk(PlanBuilder& plan, std::span<const ReferenceStep> steps, const TreeWalk& walk);

}  // namespace detent
