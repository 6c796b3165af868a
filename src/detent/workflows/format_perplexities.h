#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/text_table.h"
#include "detent/core/value.h"
#include "detent/graph/graph.h"
#include "detent/language/perplexity.h"
#include "detent/passes/post_training/static_quantize_options.h"

namespace detent {

/// Formats of both operands of every product, the two of attention too.
struct FormatPair {
  std::string text;
  OperandFormat weights;
  OperandFormat activations;
};

/// "FORMAT", or "WEIGHTS/ACTIVATIONS". Throws Error beginning with `where`.
FormatPair parse_format_pair(const std::string& text, const std::string& where);

struct FormatPerplexity {
  std::string format;  // "float" of the network as it is
  double weight_bits = 32;
  double activation_bits = 32;
  TokenScores scores;
};

/// The perplexity of a float network and of what static_quantize makes of it with each pair, on the same
/// windows. Each window runs at once, for blocks may lie along the text. Ranges, where a format needs some,
/// are those of `kCalibrationWindows` short windows after the ones that are scored, or of the text's last
/// ones. `seen` is called after each. Throws Error, beginning with `where` for what is wrong with a format.
std::vector<FormatPerplexity> format_perplexities(const Graph& network, std::span<const FormatPair> formats,
                                                  std::span<const int64_t> tokens,
                                                  const PerplexityOptions& options, const std::string& where,
                                                  const std::function<void(const FormatPerplexity&)>& seen);

/// Table of `detent perplexity --formats`, printed and as JSON.
TextTable format_perplexities_table(std::span<const FormatPerplexity> found);
Table format_perplexities_value(std::span<const FormatPerplexity> found, const PerplexityOptions& options);

}  // namespace detent
