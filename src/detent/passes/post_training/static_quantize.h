#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "detent/core/error.h"
#include "detent/graph/graph.h"
#include "detent/passes/pass.h"
#include "detent/passes/post_training/code_groups.h"
#include "detent/passes/post_training/static_quantize_options.h"

namespace detent {

/// No linear layer or convolution is left that could be quantized.
class NothingToQuantize : public Error {
 public:
  using Error::Error;
};

struct MaskedScores {
  std::set<std::string, std::less<>> in_float;
  /// Softmaxes that may reach 1 because an input masks all but one score.
  std::set<std::string, std::less<>> up_to_one;
};

/// Nodes that hold masked scores of a softmax, or masks on their way there, and so are to compute in float: a
/// score far below the largest one of its row (-inf, the lowest float32, -10000 for what is not to be
/// attended to) counts for nothing, and steps of a range that reaches so far would leave none for the others.
/// A mask that an input gives is one whatever the samples show, others are where their range, over a few
/// calibration samples, is wide. Runs these where there is a softmax after elementwise nodes.
MaskedScores masked_scores(const Graph& graph, const PassContext& context);

/// Nodes that read infinities which the network itself makes, or give them to none that is quantized: a mask
/// of -inf is 0 after an exponential, and no scale holds it. Infinities of samples are a mistake, and are
/// left to measured_distribution. `measured` has the statistics of measured_activations.
std::set<std::string, std::less<>> infinite_nodes(const Graph& measured, const CodePlan& plan);

struct VanishingValues {
  std::set<std::string, std::less<>> nodes;      // to compute in float
  std::set<std::string, std::less<>> unrounded;  // whose results stay as they are
};

/// Nodes that compute divisors, or what logarithms are taken of, from values of which codes of so many bits
/// may round some to 0 though none is, as attention that divides by sums of features does: the results would
/// be infinite.
VanishingValues vanishing_values(const Graph& measured, const CodePlan& plan, int bits,
                                 const std::string& where);

/// Ranges are chosen from the statistics of `graph`; `masked` is not to be quantized as the samples show it.
struct MeasuredNetwork {
  Graph graph;
  MaskedScores masked;
  /// Nodes whose operands the samples show to hold infinities; in masked.in_float too, as those of
  /// `vanishing`.
  std::set<std::string, std::less<>> infinite = {};
  VanishingValues vanishing = {};
  /// Bodies of loops, by the loop's name, of those with layers.
  std::map<std::string, std::shared_ptr<const MeasuredNetwork>, std::less<>> bodies = {};
  bool has_ranges = true;  // none where weights alone are quantized

  /// Whether a sample has reached any value; of a body, whether there was an iteration.
  bool is_reached() const;
};

/// Runs the float network over calibration samples, unless weights alone are quantized.
MeasuredNetwork measured_for(const Graph& network, const StaticQuantizeOptions& options,
                             PassContext& context);
/// The same for several formats; options other than formats and calibrators are those of the first.
MeasuredNetwork measured_for(const Graph& network, std::span<const StaticQuantizeOptions> options,
                             PassContext& context);

/// Calibrators of the formats of activations.
std::set<Calibrator> calibrators_of(const StaticQuantizeOptions& options);

/// Gives the nodes of `plan`, in `graph`, the quantizers of their operands and weights, in the formats that
/// the options and `bits` choose, with ranges by their calibrators from what `measured` has seen and from the
/// weights. Returns a line for each layer whose weight scales are raised so that its sums fit into 32 bits.
std::string quantize_nodes(Graph& graph, const CodePlan& plan, const MeasuredNetwork& measured,
                           const StaticQuantizeOptions& options, const NodeBitsMatcher& bits,
                           const PassContext& context);

struct IntegerNetwork {
  Graph graph;
  std::string raised_scales;            // a report of the scales that are larger than the weights need
  std::string accumulators;             // ... of the layers that have none, though all are to
  std::vector<std::string> exact = {};  // nodes in float, as others need their values as they are
  std::string bodies = {};              // ... of the bodies of loops that stay in float
};

/// `network` quantized for execution in integers. `measured` is what measured_for returned for it with the
/// same calibrator, and the same nodes in float. Throws Error where 32-bit sums could overflow.
IntegerNetwork quantized_for_integers(const Graph& network, const MeasuredNetwork& measured,
                                      const StaticQuantizeOptions& options, const PassContext& context);

}  // namespace detent
