#include "detent/hardware/circuit_values.h"

#include <algorithm>

#include "detent/core/error.h"

namespace detent {
namespace {

SignalCodes values_of(const SumBody& body, const SignalCodes& inputs) {
  const size_t positions = body.windows.size();
  const size_t channels = body.channels.size();
  SignalCodes result(positions * channels);
  for (size_t p = 0; p < positions; ++p) {
    for (size_t c = 0; c < channels; ++c) {
      const SumBody::Channel& channel = body.channels[c];
      int64_t sum = channel.bias;
      for (const auto& [tap, weight] : channel.terms) {
        const int32_t input = body.windows[p][static_cast<size_t>(tap)];
        sum += int64_t{weight} *
               (input == SumBody::kPadding ? body.padding_code : inputs[static_cast<size_t>(input)]);
      }
      result[body.channels_last ? p * channels + c : c * positions + p] =
          static_cast<int32_t>(channel.requantizer ? channel.requantizer->code(sum) : sum);
    }
  }
  return result;
}

SignalCodes values_of(const RequantizeBody& body, const SignalCodes& inputs) {
  SignalCodes result;
  for (size_t i = 0; i < inputs.size(); ++i)
    result.push_back(
        static_cast<int32_t>(body.functions[static_cast<size_t>(body.of_element[i])].code(inputs[i])));
  return result;
}

SignalCodes values_of(const LargestBody& body, const SignalCodes& inputs) {
  SignalCodes result;
  for (const auto& window : body.windows) {
    int32_t largest = inputs[static_cast<size_t>(window.front())];
    for (const int32_t input : window) largest = std::max(largest, inputs[static_cast<size_t>(input)]);
    result.push_back(largest);
  }
  return result;
}

SignalCodes values_of(const LookupBody& body, const SignalCodes& inputs) {
  SignalCodes result;
  for (const LookupBody::Neuron& neuron : body.neurons) result.push_back(neuron_code(body, neuron, inputs));
  return result;
}

}  // namespace

int32_t neuron_code(const LookupBody& body, const LookupBody::Neuron& neuron, const SignalCodes& inputs) {
  int64_t sum = 0;
  for (const LookupBody::Term& term : neuron.terms) {
    int64_t address = 0;
    int64_t place = 1;
    for (const int32_t input : term.inputs) {
      const int64_t digit = inputs[static_cast<size_t>(input)] - body.first_code;
      DETENT_CHECK(digit >= 0 && digit < body.levels, "digit {} of {}", digit, body.levels);
      address += digit * place;
      place *= body.levels;
    }
    sum += (*term.table)[static_cast<size_t>(term.first + address)];
  }
  return body.code(neuron, sum);
}

SignalCodes wire_codes(const std::vector<Wire>& wires, const std::vector<SignalCodes>& signals) {
  SignalCodes codes;
  for (const Wire& wire : wires) {
    codes.push_back(wire.is_constant()
                        ? static_cast<int32_t>(wire.element)
                        : signals[static_cast<size_t>(wire.signal)][static_cast<size_t>(wire.element)]);
  }
  return codes;
}

std::vector<SignalCodes> circuit_values(const Circuit& circuit, const std::vector<SignalCodes>& inputs) {
  std::vector<SignalCodes> signals(circuit.signals.size());
  for (size_t i = 0; i < circuit.inputs.size(); ++i)
    signals[static_cast<size_t>(circuit.inputs[i].wires.front().signal)] = inputs[i];
  for (const Layer& layer : circuit.layers) {
    const SignalCodes read = wire_codes(layer.inputs, signals);
    signals[static_cast<size_t>(layer.output)] =
        std::visit([&](const auto& body) { return values_of(body, read); }, layer.body);
  }
  return signals;
}

}  // namespace detent
