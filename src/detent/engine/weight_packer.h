#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "detent/engine/program_plan.h"
#include "detent/graph/graph.h"
#include "detent/inference/reference_step.h"

namespace detent {

/// A program that is there: the graph of which it was made, its steps and its packed weights.
struct PackedProgram {
  const Graph& graph;
  const ReferencePlan& reference;
  const ProgramWeights& weights;
};

/// Packs the weights of layers where kernels can compute them, and leaves their forms without; makes the
/// tables of pairs. Nodes that are those of another program share what it has of them. From several threads
/// at once.
class WeightPacker {
 public:
  /// `other`, unless null, must outlive this.
  WeightPacker(const KernelSet& kernels, ProgramWeights& weights, const PackedProgram* other)
      : kernels_(kernels), weights_(weights), other_(other) {}

  /// The form that the other program has of the node; nullptr where it has none.
  const NodeForm* known_form(const Node& node) const;
  /// Whether it has the node's weights.
  bool take(ReferenceStep& step);

 private:
  const ReferenceStep* same_step(const Node& node) const;
  bool share(const std::string& name);
  /// The other program's table of the node; nullptr where its pairs have other results.
  std::shared_ptr<const std::vector<uint8_t>> same_table(const std::string& name, const PairForm& form) const;
  void add_pair_table(const std::string& name, const PairForm& form);
  bool pack(ReferenceStep& step);
  bool pack_in_float(const ReferenceStep& step);

  /// A layer on floats, which others with the same parameters share, as the steps of a loop that was written
  /// out do.
  struct SharedFloats {
    explicit SharedFloats(std::weak_ptr<const void> of_weights) : owner(std::move(of_weights)) {}

    std::weak_ptr<const void> owner;  // of the weights
    std::mutex mutex = {};
    const Node* node = nullptr;
    std::vector<const std::byte*> parameters = {};
    std::shared_ptr<const PackedFloatSums> packed = {};
  };
  /// By the memory of its weights; nullptr where a step may compute with others than these.
  std::shared_ptr<SharedFloats> shared_floats(const ReferenceStep& step);

  template <class Map, class Packed>
  std::shared_ptr<const Packed> add(Map& map, const std::string& name, Packed packed) {
    auto shared = std::make_shared<const Packed>(std::move(packed));
    const std::lock_guard lock(mutex_);
    map.emplace(name, shared);
    return shared;
  }

  const KernelSet& kernels_;
  ProgramWeights& weights_;
  const PackedProgram* other_;
  std::mutex mutex_;
  std::map<const std::byte*, std::shared_ptr<SharedFloats>> shared_floats_;
};

/// The graph's weights that only packed layers have; with them goes the file in memory that all parameters
/// are parts of.
void drop_weights(Graph& graph, const ProgramWeights& weights);

}  // namespace detent
