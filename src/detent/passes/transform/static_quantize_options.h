#pragma once

#include <array>
#include <charconv>
#include <string>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/fields.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/graph.h"
#include "detent/passes/pass.h"
#include "detent/statistics/calibration.h"

namespace detent {

/// "int8", "uint4": an integer type of 2 to 16 bits.
struct IntegerType {
  bool is_signed = true;
  int width = 8;

  static std::string field_type() { return "int2 to int16 or uint2 to uint16"; }
  Value to_value() const { return fmt::format("{}int{}", is_signed ? "" : "u", width); }
  static IntegerType from_value(const Value& value, const std::string& where) {
    const auto* text = value.get_if<std::string>();
    IntegerType type;
    std::string_view rest = text == nullptr ? std::string_view() : *text;
    if (rest.starts_with('u')) {
      type.is_signed = false;
      rest.remove_prefix(1);
    }
    if (rest.starts_with("int")) {
      rest.remove_prefix(3);
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), type.width);
      const bool complete = error == std::errc() && end == rest.data() + rest.size();
      if (complete && type.width >= 2 && type.width <= 16) return type;
    }
    fail("{}: got {}, expected {}", where, value_text(value), field_type());
  }
  bool operator==(const IntegerType&) const = default;
};

/// How the first and the last layer with weights are quantized.
enum class EdgeLayers { kAsOthers, kEightBits, kFloat };
constexpr std::array<const char*, 3> enum_names(EdgeLayers) { return {"as_others", "eight_bits", "float"}; }

struct StaticQuantizeOptions {
  IntegerType weights;
  IntegerType activations{false, 8};
  IntegerType elementwise{false, 8};
  bool symmetric_activations = false;
  Granularity weight_granularity = Granularity::kChannel;
  Calibrator weight_calibrator = Calibrator::kMinMax;
  CalibrationOptions activation_calibration;
  int64_t num_samples = 1024;
  EdgeLayers edge_layers = EdgeLayers::kAsOthers;
  std::vector<std::string> keep_float;
  Requantization requantization = Requantization::kFloat;
  bool report = true;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("weights", self.weights, "codes of weights; symmetric, so signed");
    visit("activations", self.activations, "codes that layers with weights take in");
    visit("elementwise", self.elementwise,
          "codes that additions, products, means, concatenations and functions take in, where wider");
    visit("symmetric_activations", self.symmetric_activations, "zero points of 0; for signed codes");
    visit("weight_granularity", self.weight_granularity, "weights that share a scale");
    visit("weight_calibrator", self.weight_calibrator, "how the range of weights is chosen");
    CalibrationOptions::fields(self.activation_calibration, visit);
    visit("num_samples", self.num_samples, "calibration samples", Between{1, 1e12});
    visit("edge_layers", self.edge_layers, "the first and the last layer with weights");
    visit("keep_float", self.keep_float, "regular expressions of names of nodes that stay in float");
    visit("requantization", self.requantization,
          "of 32-bit sums: by a float32 multiplier, or by an integer one and a shift");
    visit("report", self.report, "print the table of nodes and the histogram");
  }
  void check(const std::string& where) const;
  void check_graph(const Graph& graph, const EarlierPasses& earlier, const std::string& where) const;
};

}  // namespace detent
