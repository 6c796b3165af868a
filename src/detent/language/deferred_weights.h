#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/float32/packed_linear.h"
#include "detent/graph/graph.h"
#include "detent/language/language_model.h"
#include "detent/language/language_weights.h"

namespace detent {

/// Weights that stay in a file until a decoder packs them, of a network whose parameters have their shapes
/// alone. Several threads may ask. Names are those of language_weights.h: "layers.3.attention.query.weight".
class DeferredWeights {
 public:
  virtual ~DeferredWeights() = default;

  struct Layer {
    Tensor weight;             // float32 [out, in]
    WeightScales scales = {};  // of the file's blocks, where it has some
  };
  virtual Layer layer(const std::string& name, const Shape& shape) const = 0;
  /// Rows of a table in float32. Throws Error where one has infinities or NaN.
  virtual Tensor rows(const std::string& name, std::span<const int64_t> indices) const = 0;
};

/// A network whose matrices stay where they are stored, but for small tables.
LanguageModel deferred_model(LanguageConfig config, std::vector<StoredName> rules,
                             std::vector<std::string> ignored, std::unique_ptr<StoredTensors> stored);

/// Whether the parameter is one whose weights are deferred.
inline bool is_deferred(const Parameter& parameter) { return parameter.tensor.bytes().data() == nullptr; }

}  // namespace detent
