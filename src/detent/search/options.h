#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/core/value.h"
#include "detent/formats/quant_spec.h"
#include "detent/search/format_choices.h"
#include "detent/statistics/calibration.h"

namespace detent {

/// "300k", "1.5M", "64KiB", "1200": bytes; k and M are thousands and millions.
struct ByteCount {
  int64_t bytes = 0;

  static std::string field_type() { return "bytes (300k, 1.5M, 64KiB)"; }
  Value to_value() const { return bytes; }
  static ByteCount from_value(const Value& value, const std::string& where);
  bool operator==(const ByteCount&) const = default;
};

/// "10m", "60s", "2ms", "1h30m".
struct TimeSpan {
  double seconds = 0;

  static std::string field_type() { return "time (90s, 10m, 1h30m, 2ms)"; }
  Value to_value() const { return std::to_string(seconds) + "s"; }
  static TimeSpan from_value(const Value& value, const std::string& where);
  bool operator==(const TimeSpan&) const = default;
};

/// The cost that a front trades for quality.
enum class CostKind { kBytes, kWeightBits, kMacBits, kLatency };
constexpr std::array<const char*, 4> enum_names(CostKind) {
  return {"bytes", "weight_bits", "mac_bits", "latency"};
}

/// The quality of a network. kAuto: accuracy where samples have labels, else the SQNR.
enum class QualityKind { kAuto, kAccuracy, kSqnr };
constexpr std::array<const char*, 3> enum_names(QualityKind) { return {"auto", "accuracy", "sqnr"}; }

/// How the values of weights are chosen while candidates are compared: to nearest, or by GPTQ with the inputs
/// of the float network.
enum class WeightRule { kNearest, kGptq };
constexpr std::array<const char*, 2> enum_names(WeightRule) { return {"nearest", "gptq"}; }

/// Fields of [search], and flags of `detent search`.
struct SearchOptions {
  std::optional<double> max_drop;
  std::optional<double> min_sqnr;
  std::optional<ByteCount> max_bytes;
  std::optional<double> max_bits;
  std::optional<TimeSpan> max_latency;
  CostKind cost = CostKind::kBytes;
  QualityKind quality = QualityKind::kAuto;
  std::optional<TimeSpan> time;
  std::optional<int64_t> evaluations;
  std::string strategy = "guided";
  std::vector<std::string> weights = {"int2", "int3", "int4", "int5", "int6", "int7", "int8"};
  std::vector<std::string> activations = {"uint8"};
  std::vector<std::string> elementwise = {"uint8"};
  FormatChoices choices;
  Granularity weight_granularity = Granularity::kChannel;
  std::vector<Calibrator> weight_calibrators = {Calibrator::kMinMax, Calibrator::kMse};
  CalibrationOptions activation_calibration{.calibrator = Calibrator::kMse};
  WeightRule weight_rule = WeightRule::kGptq;
  std::string prepare = "remove_dead_nodes,fold_constants,fuse_batch_norm";
  std::string improve = "gptaq,bias_correction";
  int64_t winners = 4;
  int64_t num_samples = 1024;
  int64_t eval_samples = 1024;
  int64_t points = 16;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    constexpr double kMost = 1e12;
    visit("max_drop", self.max_drop,
          "largest loss of accuracy against float, in points (hundredths); needs labels", Between{-100, 100});
    visit("min_sqnr", self.min_sqnr, "least SQNR of the outputs in dB; needs no labels");
    visit("max_bytes", self.max_bytes, "most bytes of weights, with scales and biases");
    visit("max_bits", self.max_bits, "most bits per weight on average, likewise", Between{0, 32});
    visit("max_latency", self.max_latency, "longest time of a sample in the engine");
    visit("cost", self.cost, "cost to minimize where quality is bounded, and of the front");
    visit("quality", self.quality, "quality of the front; auto: accuracy where there are labels");
    visit("time", self.time, "time limit, from the start of the command; NA: none");
    visit("evaluations", self.evaluations,
          "network runs over the evaluation samples, parts counted as such; NA: 100, or what the time allows",
          Between{1, kMost});
    visit("strategy", self.strategy, "guided, random, tpe, nsga2 or brute_force");
    visit("weights", self.weights, "candidate formats of weights");
    visit("activations", self.activations, "candidate formats of inputs of layers with weights");
    visit("elementwise", self.elementwise, "candidate formats of inputs of additions, means, functions");
    visit("choices", self.choices,
          "candidates for single nodes or operators, the first match counts: "
          "'layer1.*:weight=int4|int8,linear:data_in=uint8|float'");
    visit("weight_granularity", self.weight_granularity,
          "weights that share a scale, where the format does not say: tensor or channel");
    visit("weight_calibrators", self.weight_calibrators,
          "how ranges of weights are chosen; of several, the one that changes a layer's output least");
    CalibrationOptions::fields(self.activation_calibration, visit);
    visit("weight_rule", self.weight_rule, "rounding of weights while candidates are compared");
    visit("prepare", self.prepare, "preparing passes, separated by commas, or none");
    visit("improve", self.improve, "passes for better weights of uniform widths and winners, or none");
    visit("winners", self.winners, "networks that improve is tried on", Between{0, kMost});
    visit("num_samples", self.num_samples, "calibration samples", Between{1, kMost});
    visit("eval_samples", self.eval_samples, "samples that judge networks: of validation, then of training",
          Between{1, kMost});
    visit("points", self.points, "most networks of the front to write", Between{2, kMost});
  }

  /// Throws Error, beginning with `where`, on what is wrong whatever the network.
  void check(const std::string& where) const;
};

/// The passes that a text names, separated by commas, with no options: empty for "none".
Table passes_of(const std::string& names);

/// `search` with MASE's sections, where it has them, said in the fields of SearchOptions:
///
///     [search.search_space.setup]         by = "name" or "type"
///     [search.search_space.seed.X.config] X: default, a node or an operator; a list of values for each key
///     [search.strategy]                   name, and setup, metrics, sw_runner, hw_runner
///
/// The lists of an operand's keys become formats: name = ["integer"], weight_width = [4, 8] are fixed:width=4
/// and fixed:width=8. What has no meaning here is said to `warn`; what would be another search throws Error,
/// beginning with `where`.
Table without_mase_sections(const Table& search, const std::string& where,
                            const std::function<void(const std::string&)>& warn);

}  // namespace detent
