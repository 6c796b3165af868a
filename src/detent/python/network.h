#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "detent/datasets/dataset.h"
#include "detent/engine/fast_executor.h"
#include "detent/graph/graph.h"

namespace detent::python {

/// An input or an output, by the name that users know it by.
struct NamedType {
  std::string name;
  std::string dtype;
  std::vector<std::string> shape;  // numbers, and names of what a run decides
};

/// A network and, once it has been run, what runs it. From several threads.
class Network {
 public:
  Network(Graph graph, std::string source) : graph_(std::move(graph)), source_(std::move(source)) {}

  const Graph& graph() const { return graph_; }
  /// The file that it is from, for messages.
  const std::string& source() const { return source_; }
  /// In the order in which it takes them.
  std::vector<SampleInput> sample_inputs() const;
  /// As CollectedSamples takes them; {} where every input begins with the batch.
  std::vector<int64_t> sample_rows() const;
  std::vector<NamedType> inputs() const;
  std::vector<std::string> output_names() const;
  /// Outputs of each sample where it is a classifier: their number; 0 where it is none.
  int64_t class_count() const;
  std::shared_ptr<const FastProgram> program() const;

 private:
  Graph graph_;
  std::string source_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const FastProgram> program_;
};

}  // namespace detent::python
