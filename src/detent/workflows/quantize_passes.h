#pragma once

#include <optional>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/core/value.h"
#include "detent/formats/format.h"
#include "detent/graph/graph.h"

namespace detent {

/// Request of `detent quantize`, and of the Python module.
struct QuantizeWish {
  /// Options of the pass static_quantize, as quantize_options() lists them.
  Table options = {};
  /// Passes before it.
  std::vector<std::string> prepare = {"remove_dead_nodes", "fold_constants", "fuse_batch_norm"};
  /// Passes for better weights, after it or, where they change the float network, right before; nothing:
  /// those that are usual for the options.
  std::optional<std::vector<std::string>> improve = std::nullopt;
  /// The ONNX model that the result is to be written as.
  std::optional<std::string> output = std::nullopt;
};

/// The options of static_quantize but for `report`: the layer-wise errors say more.
std::vector<FieldDescription> quantize_options();

/// Whether ranges of activations, or passes for better weights, follow from calibration samples.
bool needs_samples(const QuantizeWish& wish);

/// Settles the rest where there are none: means on random inputs are no reason to change biases.
void leave_out_samples(QuantizeWish& wish);

/// The passes with their options, in order. Throws UsageError on passes that do not exist or do not change a
/// network, on options that are wrong, and where `output` could not hold the formats; Error on an order of
/// passes that makes no sense.
Table quantize_passes(const QuantizeWish& wish);

/// The format that a `cache_format` option names; nothing for "". Throws Error beginning with `where`.
std::optional<Format> cache_format_of(const std::string& text, const std::string& where);

/// Leaves the products with keys and values that a decoder keeps to float, in the options of static_quantize
/// among `passes`: quantize_cache (language/cache_format.h) rounds what they read instead. Throws Error
/// beginning with `where` on a network that keeps none.
void leave_cache_to_float(Table& passes, const Graph& network, const std::string& where);

}  // namespace detent
