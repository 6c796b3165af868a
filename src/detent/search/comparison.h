#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/core/text_table.h"
#include "detent/core/value.h"
#include "detent/graph/graph.h"
#include "detent/passes/pass.h"
#include "detent/passes/post_training/static_quantize_options.h"
#include "detent/search/judge.h"
#include "detent/search/options.h"

namespace detent {

/// Flags of `detent compare`, beside those of static_quantize.
struct ComparisonOptions {
  std::vector<std::string> formats = {
      "int8", "int4", "int4_g32", "fp8_e4m3fn/fp8_e4m3fn", "mx_e4m3/mx_e4m3", "nvfp4", "nvfp4/nvfp4"};
  std::vector<std::string> methods = {"none", "bias_correction", "gptq+bias_correction"};
  std::string prepare = "remove_dead_nodes,fold_constants,fuse_batch_norm";
  std::optional<TimeSpan> time;
  std::optional<int64_t> eval_samples;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("formats", self.formats,
          "formats to compare: WEIGHTS or WEIGHTS/ACTIVATIONS, as in `detent quantize`");
    visit("methods", self.methods,
          "passes for better weights, tried with every format: none, or passes joined by +");
    visit("prepare", self.prepare, "preparing passes, separated by commas, or none");
    visit("time", self.time,
          "time limit, from the start of the command; --resume measures the rest; NA: none");
    visit("eval_samples", self.eval_samples, "samples that judge networks; NA: all test samples",
          Between{1, 1e12});
  }
};

/// A format of weights and one of activations, as they were written down: "int4_g32", "uint8".
struct ComparedFormat {
  std::string weights;
  std::string activations;

  std::string text() const { return weights + "/" + activations; }
};

/// Passes by the stage at which they run: those before quantizing change the float network.
struct ComparedMethod {
  std::string name;
  Table before;
  Table after;
};

/// The comparison to make, parsed and checked.
struct ComparisonPlan {
  std::vector<ComparedFormat> formats;
  std::vector<ComparedMethod> methods;
  Table prepare;
  Table quantization;  // options of static_quantize but for the formats

  /// Options of `detent quantize` for the format.
  StaticQuantizeOptions quantize_options(const ComparedFormat& format) const;
  /// Passes that change the float network for a row, in their order.
  Table before(const ComparedFormat& format, const ComparedMethod& method) const;
  /// The passes of `detent quantize` for a row, in their order.
  Table passes(const ComparedFormat& format, const ComparedMethod& method) const;
};

/// Throws Error, beginning with `where`, on unknown formats, passes and options, before anything is run.
ComparisonPlan plan_comparison(const ComparisonOptions& options, const Table& quantization,
                               const std::string& where);

/// Measurements of a row.
struct ComparedNetwork {
  size_t format = 0;  // indices into the plan
  size_t method = 0;
  std::string obstacle = {};  // why there is no such network; "": there is
  Quality quality = {};
  int64_t weight_bytes = 0;
  double weight_bits = 0;      // a weight, scales counted
  double activation_bits = 0;  // a value
  double latency = 0;          // seconds that the engine takes for a sample
  bool on_front = false;       // no other has a smaller distortion in as many bytes
};

struct ComparisonReport {
  ComparisonPlan plan;
  Quality reference;  // the float network
  int64_t reference_bytes = 0;
  double reference_latency = 0;
  std::vector<ComparedNetwork> networks;  // by format, then by method
  size_t missing = 0;                     // rows left out for lack of time
};

struct ComparisonRequest {
  Graph network;  // in float, as it was loaded
  JudgedSamples samples;
  ComparisonPlan plan;
  std::filesystem::path journal;
  bool resumes = false;  // what the journal holds is not measured again
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::function<double(const Graph&)> latency;  // seconds that the engine takes for a sample
};

/// Quantizes a network to each format by each method and measures what comes of it. The network is prepared
/// and calibrated once for all formats (once more for each set of passes that change it before). Methods come
/// one after the other, so that a comparison that ends early has all formats of the first ones. Ends before
/// the next row where the time is up or a signal has come.
ComparisonReport compare_formats(const ComparisonRequest& request, PassContext& context);

TextTable comparison_table(const ComparisonReport& report);
/// As docs/results.md says.
Value comparison_value(const ComparisonReport& report);

}  // namespace detent
