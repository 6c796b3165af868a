#pragma once

#include <memory>

#include "detent/graph/graph.h"
#include "detent/language/language_config.h"

namespace detent {

class DeferredWeights;

/// A language model as a folder or a file has it.
struct LanguageModel {
  LanguageConfig config;
  Graph graph;
  /// Where there are some, matrices of the graph have their shapes alone: for Decoder.
  std::shared_ptr<const DeferredWeights> weights = {};
};

}  // namespace detent
