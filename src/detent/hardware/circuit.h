#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"
#include "detent/inference/code_type.h"

namespace detent {

/// The codes low, low + 1, ... high, and the wires that hold one: plain binary where none is below 0, else
/// two's complement.
struct WireRange {
  int64_t low = 0;
  int64_t high = 0;

  bool is_signed() const { return low < 0; }
  int width() const {
    const auto magnitude = static_cast<uint64_t>(low < 0 && ~low > high ? ~low : high);
    const int bits = static_cast<int>(std::bit_width(high < 0 ? static_cast<uint64_t>(~low) : magnitude));
    return is_signed() ? bits + 1 : (bits == 0 ? 1 : bits);
  }
  bool operator==(const WireRange&) const = default;
};

/// A monotone function of accumulators, as hardware computes it:
///
///     kThresholds    low + number of thresholds that the sum reaches
///     kFloor         clamp(floor((sum * multiplier + offset) / 2^shift), low, high)
///     kToEven        clamp(offset + sum * multiplier / 2^shift to the nearest integer, ties to even, low,
///     high)
///
/// It is proved on both sides of each step of the function, and so, as both are monotone, everywhere.
struct Requantizer {
  enum class Kind { kThresholds, kFloor, kToEven };
  Kind kind = Kind::kThresholds;
  int64_t multiplier = 0;
  int64_t offset = 0;
  int shift = 0;
  std::vector<int64_t> thresholds = {};
  WireRange codes = {};

  int64_t code(int64_t sum) const;
  bool operator==(const Requantizer&) const = default;
};

/// Computes `function` for the accumulators of a range; `slope` is its approximate increase per step.
Requantizer find_requantizer(const std::function<int64_t(int64_t sum)>& function, const WireRange& sums,
                             double slope);

/// The meaning of codes: those of an affine format, ...
struct AffineMeaning {
  CodeType type;
  bool operator==(const AffineMeaning&) const = default;
};
/// ... integers times a scale, one for all elements or one each, ...
struct ScaledMeaning {
  std::vector<float> scale;
  bool operator==(const ScaledMeaning&) const = default;
};
/// ... or indices of a list of values.
struct ListMeaning {
  std::vector<float> values;
  bool operator==(const ListMeaning&) const = default;
};
using CodeMeaning = std::variant<AffineMeaning, ScaledMeaning, ListMeaning>;

float code_value(const CodeMeaning& meaning, size_t element, int64_t code);
/// "(code - 3) * 0.25", for people who connect the ports.
std::string meaning_text(const CodeMeaning& meaning);

/// The codes of a tensor, element i in the bits [i * width, (i + 1) * width) of a vector of wires.
struct Signal {
  std::string name;  // a Verilog identifier
  std::string node;  // whose result it is
  WireRange codes;
  int64_t elements = 0;
  CodeMeaning meaning;
  std::optional<QuantSpec> rounding =
      {};         // for an input whose codes are indices of a list: where its values come from
  int stage = 0;  // clock cycles after the inputs

  int64_t bits() const { return elements * codes.width(); }
};

/// An element of a signal, or a code that never changes.
struct Wire {
  static constexpr int32_t kConstant = -1;
  int32_t signal = kConstant;
  int64_t element = 0;  // or the code

  bool is_constant() const { return signal == kConstant; }
  bool operator==(const Wire&) const = default;
};

/// Weighted sums with constant weights over windows of the input, for each position and channel: the
/// elements of the result.
struct SumBody {
  static constexpr int32_t kPadding = -1;
  struct Term {
    int32_t tap;
    int32_t weight;
  };
  struct Channel {
    std::vector<Term> terms;
    int64_t bias = 0;  // with the zero point's contribution
    WireRange sums;
    std::optional<Requantizer> requantizer = {};
  };
  std::vector<std::vector<int32_t>> windows;  // [position][tap], an element of the input, or kPadding
  int64_t padding_code = 0;
  std::vector<Channel> channels;
  bool channels_last = false;  // else positions vary fastest
};

/// Each element through its function: `of_element` are indices of functions.
struct RequantizeBody {
  std::vector<Requantizer> functions;
  std::vector<int32_t> of_element;
};

/// The largest code of each window of elements of the input.
struct LargestBody {
  std::vector<std::vector<int32_t>> windows;
};

/// Truth tables: each element of the result follows from a sum of table entries.
struct LookupBody {
  struct Term {
    std::vector<int32_t> inputs;                        // the first varies fastest; the digits of the address
    std::shared_ptr<const std::vector<int32_t>> table;  // of several terms
    int64_t first = 0;                                  // its entry where all digits are 0
  };
  struct Neuron {
    std::vector<Term> terms;
    bool has_thresholds = false;  // else the sum is the code
    std::vector<int32_t> thresholds = {};
  };
  int64_t levels = 2;                 // values of a digit
  int64_t first_code = 0;             // the code of digit 0
  std::vector<int32_t> results = {};  // codes of the result; empty: what is computed is the code
  std::vector<Neuron> neurons;

  /// Code of a result, from the sum of the entries.
  int32_t code(const Neuron& neuron, int64_t sum) const;
};

using LayerBody = std::variant<SumBody, RequantizeBody, LargestBody, LookupBody>;

/// A layer, which becomes a module.
struct Layer {
  std::string module;  // a Verilog identifier
  std::string node;
  std::string op;
  std::vector<Wire> inputs;
  WireRange input_codes;
  int32_t output = 0;  // a signal
  LayerBody body;
};

struct CircuitPort {
  std::string name;    // a Verilog identifier
  std::string source;  // the network's name for it
  Shape shape;         // of one sample
  std::vector<Wire> wires;
};

/// A network as layers of combinational logic between registers, for one sample.
struct Circuit {
  std::string name;
  std::vector<Signal> signals;
  std::vector<Layer> layers;  // each reads only what earlier ones give
  std::vector<CircuitPort> inputs;
  std::vector<CircuitPort> outputs;
  int latency = 0;  // clock cycles from inputs to outputs
  std::vector<std::string> notes = {};

  const Signal& signal_of(const CircuitPort& port) const;
};

/// Layers on the longest path from the inputs to the outputs.
int layer_depth(const Circuit& circuit);

/// The stage at which a layer reads these wires.
int reading_stage(const Circuit& circuit, const std::vector<Wire>& wires);

/// Spreads `latency` registers evenly over the layers from the inputs to the outputs: at most one after
/// each layer, which is the default. Sets the stages of the signals. Throws Error beyond that.
void schedule(Circuit& circuit, std::optional<int64_t> latency);

}  // namespace detent
