#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/graph/graph.h"
#include "detent/passes/analysis/layerwise_error.h"
#include "detent/passes/pass.h"

namespace detent {

/// Options of `detent quantize` and the resulting network.
struct TriedOptions {
  std::string options;  // those that change: "--improve gptq,bias_correction"
  double output_sqnr_db = 0;
  int64_t weight_bytes = 0;
};

/// Advice to bring a quantized network closer to float.
struct QuantizationAdvice {
  double output_sqnr_db = 0;  // as it is
  int64_t weight_bytes = 0;
  int64_t samples = 0;              // that the networks tried were calibrated with
  std::vector<TriedOptions> tried;  // each with the options of those before it, and better than these

  std::string text() const;
  Value to_value() const;  // of `tried`, each with what it wins
};

/// A network before and after static_quantize and later passes.
struct QuantizedNetwork {
  const Graph& reference;
  const Graph& quantized;
  const Table& passes;  // that change weights before static_quantize, it and those after it, as given
};

/// Tries options that may improve the network, and keeps those that do: first what takes no more bytes
/// (better weights, their ranges), then more bits where they gain most per byte. The SQNR is that of
/// `errors`, on the same samples. All takes some seconds of a core; weights that would take longer to choose
/// (wide layers, whatever the samples) are not tried. Nothing is tried if the SQNR is high enough.
QuantizationAdvice advise_quantization(const QuantizedNetwork& network, const LayerwiseErrors& errors,
                                       PassContext& context);

}  // namespace detent
