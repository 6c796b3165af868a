#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/passes/post_training/exact_values.h"

namespace detent {

/// An input of a node that computes on codes.
struct CodeRead {
  size_t node;  // position in the graph
  size_t input;
  std::string value;  // the node whose result it reads
};

/// Results with the same codes: one node's result, and all nodes that only move or compare it.
struct CodeGroup {
  std::string root;              // the node that computes it, or an input of the network
  std::vector<size_t> clamps;    // positions of nodes that clamp, which must know the scale
  std::vector<CodeRead> reads;   // in the order of the graph
  bool root_needs_type = false;  // its result is codes, though no node may read it
  bool is_exact = false;         // others need its values as they are, and who reads codes rounds for itself
};

/// Weights of a recurrent layer, which computes in float.
struct ConstantWeight {
  size_t node;      // position in the graph
  size_t constant;  // position of what it reads
};

/// Chooses the values of a network that become codes.
struct CodePlan {
  std::vector<CodeGroup> groups;          // those that a node reads as codes, or whose root needs a type
  std::vector<size_t> weighted;           // positions of linear layers and convolutions that compute on codes
  std::vector<size_t> rows;               // of nodes that look up rows of a weight, whose result is in float
  std::vector<ConstantWeight> constants;  // stored as codes, and rounded for nodes that compute in float
  std::vector<std::string> in_float;      // nodes that compute in float
  std::vector<std::string> exact;         // ... though they have an integer form, as others need exact values
  ExactValues exact_values;

  bool has_weights() const { return !weighted.empty() || !constants.empty(); }
};

/// `kept_in_float`: names of nodes that are to stay in float though they have an integer form; `unrounded`:
/// whose results are.
CodePlan plan_codes(const Graph& graph, const std::set<std::string, std::less<>>& kept_in_float,
                    const std::set<std::string, std::less<>>& unrounded = {});

/// Rounds the result of the group's root to `quantizer`, and its clamps' operands; returns false without
/// change if the root computes in float or its values must stay exact.
bool quantize_result(Graph& graph, const CodePlan& plan, const CodeGroup& group,
                     const QuantizerRef& quantizer);

}  // namespace detent
