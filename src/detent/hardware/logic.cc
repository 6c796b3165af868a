#include "detent/hardware/logic.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>

#include "detent/core/error.h"
#include "detent/hardware/lut_decomposition.h"

namespace detent {
namespace {

using Literal = LutNetlist::Literal;

/// The code that a pattern of bits stands for.
int64_t code_of_bits(size_t bits, const WireRange& range) {
  const int width = range.width();
  const auto code = static_cast<int64_t>(bits);
  return range.is_signed() && (bits >> (width - 1) & 1) != 0 ? code - (int64_t{1} << width) : code;
}

/// With as few tables as packing leaves.
void pack(LayerLogic& logic) {
  for (size_t before = logic.netlist.luts().size() + 1; logic.netlist.luts().size() < before;) {
    before = logic.netlist.luts().size();
    logic.netlist = logic.netlist.packed(logic.outputs);
  }
  logic.depth = logic.netlist.depth(logic.outputs);
}

class LayerLogicBuilder {
 public:
  LayerLogicBuilder(const Layer& layer, const Signal& output, const ReachableCodes& reachable,
                    const std::vector<SignalCodes>* samples)
      : body_(std::get<LookupBody>(layer.body)),
        input_codes_(layer.input_codes),
        output_(output),
        reachable_(reachable),
        samples_(samples),
        logic_{.netlist = LutNetlist(layer.inputs.size() * static_cast<size_t>(layer.input_codes.width())),
               .outputs = {}},
        decomposition_(logic_.netlist) {
    for (size_t i = 0; i < layer.inputs.size(); ++i) inputs_.push_back(literals_of(i));
  }

  LayerLogic build(ReachableCodes& results) {
    std::set<std::vector<Literal>> different;
    for (const LookupBody::Neuron& neuron : body_.neurons) {
      std::vector<bool>& codes =
          results.emplace_back(static_cast<size_t>(output_.codes.high - output_.codes.low + 1));
      const std::vector<Literal> bits = neuron_bits(neuron, codes);
      const auto is_constant = [](Literal bit) { return LutNetlist::bit_of(bit) == LutNetlist::kZero; };
      if (std::ranges::all_of(bits, is_constant)) {
        ++logic_.constant_outputs;
      } else if (!different.insert(bits).second) {
        ++logic_.shared_outputs;
      }
      logic_.outputs.insert(logic_.outputs.end(), bits.begin(), bits.end());
    }
    pack(logic_);
    return std::move(logic_);
  }

 private:
  /// Inputs that are read in place of one truth table of all of them.
  static constexpr int kMostBitsOfWhole = 9;
  static constexpr int kMostBitsOfSum = 12;

  /// A set of inputs, as one vector of bits: those of the first are the lowest.
  struct Operands {
    std::vector<int32_t> inputs;
    std::vector<Literal> literals;
  };

  /// A bit that is the same in all codes that can come in is a constant.
  std::vector<Literal> literals_of(size_t input) const {
    const int width = input_codes_.width();
    uint64_t ever_one = 0;
    uint64_t ever_zero = 0;
    for (int64_t code = input_codes_.low; code <= input_codes_.high; ++code) {
      if (!reachable_[input][static_cast<size_t>(code - input_codes_.low)]) continue;
      ever_one |= static_cast<uint64_t>(code);
      ever_zero |= ~static_cast<uint64_t>(code);
    }
    std::vector<Literal> literals;
    for (int bit = 0; bit < width; ++bit) {
      const bool one = (ever_one >> bit & 1) != 0;
      const bool zero = (ever_zero >> bit & 1) != 0;
      literals.push_back(
          one && zero ? logic_.netlist.input(input * static_cast<size_t>(width) + static_cast<size_t>(bit))
                      : (one ? LutNetlist::kTrue : LutNetlist::kFalse));
    }
    return literals;
  }

  Operands operands_of(std::span<const LookupBody::Term> terms) const {
    std::set<int32_t> inputs;
    for (const LookupBody::Term& term : terms) inputs.insert(term.inputs.begin(), term.inputs.end());
    Operands operands{{inputs.begin(), inputs.end()}, {}};
    for (const int32_t input : operands.inputs) {
      const auto& literals = inputs_[static_cast<size_t>(input)];
      operands.literals.insert(operands.literals.end(), literals.begin(), literals.end());
    }
    return operands;
  }

  int bit_count(const Operands& operands) const {
    return static_cast<int>(std::ssize(operands.inputs)) * input_codes_.width();
  }

  /// The digit of each operand in an entry; false where one is none that can come in.
  bool digits_of(const Operands& operands, size_t entry, std::map<int32_t, int64_t>& digits) const {
    const auto width = static_cast<size_t>(input_codes_.width());
    for (size_t i = 0; i < operands.inputs.size(); ++i) {
      const int64_t code = code_of_bits(entry >> (i * width) & ((size_t{1} << width) - 1), input_codes_);
      const int64_t digit = code - body_.first_code;
      if (code < input_codes_.low || code > input_codes_.high || digit < 0 || digit >= body_.levels)
        return false;
      if (!reachable_[static_cast<size_t>(operands.inputs[i])][static_cast<size_t>(code - input_codes_.low)])
        return false;
      digits[operands.inputs[i]] = digit;
    }
    return true;
  }

  int64_t entry_of(const LookupBody::Term& term, const std::map<int32_t, int64_t>& digits) const {
    int64_t address = term.first;
    int64_t place = 1;
    for (const int32_t input : term.inputs) {
      address += digits.at(input) * place;
      place *= body_.levels;
    }
    return (*term.table)[static_cast<size_t>(address)];
  }

  /// Sums of terms for each combination of their operands' bits; nullopt where it never occurs.
  std::vector<std::optional<int64_t>> sums_of(std::span<const LookupBody::Term> terms,
                                              const Operands& operands) const {
    std::vector<std::optional<int64_t>> sums(size_t{1} << bit_count(operands));
    const std::vector<bool> seen = seen_entries(operands);
    std::map<int32_t, int64_t> digits;
    for (size_t entry = 0; entry < sums.size(); ++entry) {
      if (!seen.empty() && !seen[entry]) continue;
      if (!digits_of(operands, entry, digits)) continue;
      int64_t sum = 0;
      for (const LookupBody::Term& term : terms) sum += entry_of(term, digits);
      sums[entry] = sum;
    }
    return sums;
  }

  /// Entries that the data read; empty where there are no data.
  std::vector<bool> seen_entries(const Operands& operands) const {
    if (samples_ == nullptr) return {};
    const auto width = static_cast<size_t>(input_codes_.width());
    const uint64_t mask = (uint64_t{1} << width) - 1;
    std::vector<bool> seen(size_t{1} << bit_count(operands));
    for (const SignalCodes& sample : *samples_) {
      size_t entry = 0;
      for (size_t i = 0; i < operands.inputs.size(); ++i)
        entry |= (static_cast<uint64_t>(sample[static_cast<size_t>(operands.inputs[i])]) & mask)
                 << (i * width);
      seen[entry] = true;
    }
    return seen;
  }

  /// Bit `bit` of what `values` holds, which is nowhere below 0 or in two's complement.
  Literal bit_of_values(const std::vector<std::optional<int64_t>>& values, int bit,
                        const std::vector<Literal>& literals) {
    TruthTable value(static_cast<int>(std::bit_width(values.size()) - 1));
    TruthTable care(value.inputs());
    for (size_t entry = 0; entry < values.size(); ++entry) {
      if (!values[entry]) continue;
      care.set(entry);
      value.set(entry, (static_cast<uint64_t>(*values[entry]) >> bit & 1) != 0);
    }
    return decomposition_.function(std::move(value), std::move(care), literals);
  }

  void note(std::vector<bool>& codes, int64_t code) const {
    DETENT_CHECK(code >= output_.codes.low && code <= output_.codes.high, "code {} of {}", code,
                 output_.node);
    codes[static_cast<size_t>(code - output_.codes.low)] = true;
  }

  std::vector<Literal> neuron_bits(const LookupBody::Neuron& neuron, std::vector<bool>& codes) {
    const Operands operands = operands_of(neuron.terms);
    if (neuron.terms.size() > 1 && bit_count(operands) > kMostBitsOfWhole) return bits_of_sum(neuron, codes);
    std::vector<std::optional<int64_t>> values = sums_of(neuron.terms, operands);
    for (std::optional<int64_t>& value : values) {
      if (!value) continue;
      value = body_.code(neuron, *value);
      note(codes, *value);
    }
    std::vector<Literal> bits;
    for (int bit = 0; bit < output_.codes.width(); ++bit)
      bits.push_back(bit_of_values(values, bit, operands.literals));
    return bits;
  }

  /// The bits of each term, times their weights, added.
  std::vector<Literal> bits_of_sum(const LookupBody::Neuron& neuron, std::vector<bool>& codes) {
    std::vector<std::pair<Literal, int64_t>> weighted;
    int64_t least = 0;
    int64_t most = 0;
    for (const LookupBody::Term& term : neuron.terms) {
      const auto [low, high] = add_term(term, weighted);
      least += low;
      most += high;
    }
    if (!neuron.has_thresholds && body_.results.empty()) {
      for (int64_t code = least; code <= most; ++code) note(codes, code);
      return heap_sum(weighted, least, output_.codes.width());
    }
    for (int32_t code = body_.code(neuron, least); code <= body_.code(neuron, most); ++code)
      note(codes, code);
    const int width = std::max(static_cast<int>(std::bit_width(static_cast<uint64_t>(most - least))), 1);
    return thresholded(neuron, heap_sum(weighted, 0, width), least, most);
  }

  /// Its bits with their weights; returns the least and the largest value.
  std::pair<int64_t, int64_t> add_term(const LookupBody::Term& term,
                                       std::vector<std::pair<Literal, int64_t>>& weighted) {
    const Operands operands = operands_of({&term, 1});
    std::vector<std::optional<int64_t>> values = sums_of({&term, 1}, operands);
    std::set<int64_t> different;
    for (const std::optional<int64_t>& value : values) {
      if (value) different.insert(*value);
    }
    if (different.empty()) return {0, 0};
    const int64_t least = *different.begin();
    const int64_t most = *different.rbegin();
    const int64_t unit = different.size() == 2 ? most - least : 1;
    for (std::optional<int64_t>& value : values) {
      if (value) value = (*value - least) / unit;
    }
    const int bits = static_cast<int>(std::bit_width(static_cast<uint64_t>((most - least) / unit)));
    for (int bit = 0; bit < bits; ++bit)
      weighted.emplace_back(bit_of_values(values, bit, operands.literals), unit << bit);
    return {least, most};
  }

  std::vector<Literal> heap_sum(const std::vector<std::pair<Literal, int64_t>>& weighted, int64_t constant,
                                int width) {
    BitHeap heap(logic_.netlist, width);
    for (const auto& [literal, weight] : weighted) heap.add(literal, weight);
    heap.add_constant(constant);
    return heap.sum();
  }

  /// The code of a sum, whose bits are counted from `least`.
  std::vector<Literal> thresholded(const LookupBody::Neuron& neuron, const std::vector<Literal>& sum,
                                   int64_t least, int64_t most) {
    std::vector<Literal> bits;
    if (std::ssize(sum) <= kMostBitsOfSum) {
      std::vector<std::optional<int64_t>> values(size_t{1} << sum.size());
      for (int64_t i = 0; i <= most - least; ++i)
        values[static_cast<size_t>(i)] = body_.code(neuron, least + i);
      for (int bit = 0; bit < output_.codes.width(); ++bit) bits.push_back(bit_of_values(values, bit, sum));
      return bits;
    }
    if (!body_.results.empty())
      fail("node \"{}\": sums of {} values are too many to list their results", output_.node,
           most - least + 1);
    std::vector<std::pair<Literal, int64_t>> reached;
    for (const int32_t threshold : neuron.thresholds)
      reached.emplace_back(is_reached(sum, threshold - least), 1);
    return heap_sum(reached, 0, output_.codes.width());
  }

  /// sum >= threshold: the carry out of sum + (2^width - threshold).
  Literal is_reached(const std::vector<Literal>& sum, int64_t threshold) {
    const int64_t end = int64_t{1} << sum.size();
    if (threshold <= 0) return LutNetlist::kTrue;
    if (threshold >= end) return LutNetlist::kFalse;
    BitHeap heap(logic_.netlist, static_cast<int>(sum.size()) + 1);
    for (size_t bit = 0; bit < sum.size(); ++bit) heap.add(sum[bit], int64_t{1} << bit);
    heap.add_constant(end - threshold);
    return heap.sum().back();
  }

  const LookupBody& body_;
  WireRange input_codes_;
  const Signal& output_;
  const ReachableCodes& reachable_;
  const std::vector<SignalCodes>* samples_;
  LayerLogic logic_;
  LutDecomposition decomposition_;
  std::vector<std::vector<Literal>> inputs_;  // bits of each
};

std::vector<bool> all_codes(const WireRange& codes) {
  return std::vector<bool>(static_cast<size_t>(codes.high - codes.low + 1), true);
}

/// Reachable codes of a layer's inputs, from those of the signals; empty of a signal: all.
ReachableCodes reachable_inputs(const Circuit& circuit, const Layer& layer,
                                const std::vector<ReachableCodes>& signals) {
  ReachableCodes result;
  const int64_t low = layer.input_codes.low;
  const auto count = static_cast<size_t>(layer.input_codes.high - low + 1);
  for (const Wire& wire : layer.inputs) {
    std::vector<bool>& codes = result.emplace_back(count);
    if (wire.is_constant()) {
      codes.at(static_cast<size_t>(wire.element - low)) = true;
      continue;
    }
    const auto number = static_cast<size_t>(wire.signal);
    const WireRange& range = circuit.signals[number].codes;
    const std::vector<bool> known =
        signals[number].empty() ? all_codes(range) : signals[number][static_cast<size_t>(wire.element)];
    for (size_t i = 0; i < known.size(); ++i) {
      const int64_t place = range.low + static_cast<int64_t>(i) - low;
      if (known[i] && place >= 0 && place < std::ssize(codes)) codes[static_cast<size_t>(place)] = true;
    }
  }
  return result;
}

/// Takes the logic away whose results nothing reads, from the outputs of the circuit backwards.
void drop_unread(const Circuit& circuit, std::vector<std::optional<LayerLogic>>& logic) {
  std::vector<std::vector<bool>> read;
  for (const Signal& signal : circuit.signals) read.emplace_back(static_cast<size_t>(signal.bits()));
  const auto note = [&](int32_t signal, int64_t bit) {
    read[static_cast<size_t>(signal)][static_cast<size_t>(bit)] = true;
  };
  for (const CircuitPort& port : circuit.outputs) visit_bits(circuit, port.wires, note);
  for (size_t i = circuit.layers.size(); i-- > 0;) {
    const Layer& layer = circuit.layers[i];
    if (logic[i]) {
      const std::vector<bool>& is_read = read[static_cast<size_t>(layer.output)];
      for (size_t bit = 0; bit < is_read.size(); ++bit) {
        if (!is_read[bit]) logic[i]->outputs[bit] = LutNetlist::kFalse;
      }
      pack(*logic[i]);
    }
    visit_read_bits(circuit, layer, logic[i] ? &*logic[i] : nullptr, note);
  }
}

}  // namespace

LayerLogic layer_logic(const Layer& layer, const Signal& output, const ReachableCodes& reachable,
                       const std::vector<SignalCodes>* samples, ReachableCodes& results) {
  return LayerLogicBuilder(layer, output, reachable, samples).build(results);
}

std::vector<std::optional<LayerLogic>> circuit_logic(const Circuit& circuit, DontCares dont_cares,
                                                     const std::vector<std::vector<SignalCodes>>& samples) {
  std::vector<std::vector<SignalCodes>> values;  // of all signals, [sample]
  if (dont_cares == DontCares::kData) {
    for (const auto& sample : samples) values.push_back(circuit_values(circuit, sample));
  }
  std::vector<ReachableCodes> signals(circuit.signals.size());
  std::vector<std::optional<LayerLogic>> logic;
  for (const Layer& layer : circuit.layers) {
    std::optional<LayerLogic>& of_layer = logic.emplace_back();
    if (!std::holds_alternative<LookupBody>(layer.body)) continue;
    const ReachableCodes reachable = reachable_inputs(circuit, layer, signals);
    std::vector<SignalCodes> read;
    for (const auto& sample : values) read.push_back(wire_codes(layer.inputs, sample));
    ReachableCodes results;
    const bool from_data = dont_cares == DontCares::kData;
    of_layer = layer_logic(layer, circuit.signals[static_cast<size_t>(layer.output)], reachable,
                           from_data ? &read : nullptr, results);
    if (dont_cares != DontCares::kNone) signals[static_cast<size_t>(layer.output)] = std::move(results);
  }
  drop_unread(circuit, logic);
  return logic;
}

}  // namespace detent
