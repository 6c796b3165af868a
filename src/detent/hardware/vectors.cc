#include "detent/hardware/circuit_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "detent/core/error.h"
#include "detent/formats/quant_spec.h"
#include "detent/hardware/layer_circuits.h"
#include "detent/inference/integer_executor.h"

namespace detent {
namespace {

/// The code of a value that has one.
int32_t exact_code(const Signal& signal, size_t element, float value) {
  int64_t code = 0;
  if (const auto* affine = std::get_if<AffineMeaning>(&signal.meaning)) {
    code = affine->type.code(value);
  } else if (const auto* list = std::get_if<ListMeaning>(&signal.meaning)) {
    code = std::ranges::find(list->values, value) - list->values.begin();
    if (code == std::ssize(list->values)) fail("\"{}\": {} is none of its values", signal.node, value);
  } else {
    const double unit = static_cast<double>(code_value(signal.meaning, element, 1));
    code = static_cast<int64_t>(std::nearbyint(static_cast<double>(value) / unit));
  }
  if (code_value(signal.meaning, element, code) != value)
    fail("\"{}\": {} is no multiple of its step", signal.node, value);
  return static_cast<int32_t>(code);
}

/// The code that an input of the network is rounded to.
int32_t rounded_code(const Signal& signal, float value) {
  if (const auto* affine = std::get_if<AffineMeaning>(&signal.meaning)) return affine->type.code(value);
  if (!signal.rounding) return exact_code(signal, 0, value);
  return exact_code(
      signal, 0, fake_quantize(*signal.rounding, Tensor::from<float>({1}, {&value, 1})).values<float>()[0]);
}

/// The 32-bit sums that nodes gave in a run, by node: [samples, elements].
using ObservedSums = std::map<std::string, Tensor>;

const Signal& signal_of(const Circuit& circuit, const Wire& wire) {
  return circuit.signals[static_cast<size_t>(wire.signal)];
}

SignalCodes output_codes(const Circuit& circuit, const CircuitPort& port, std::span<const float> values,
                         const ObservedSums& sums, int64_t sample) {
  SignalCodes codes;
  for (size_t i = 0; i < port.wires.size(); ++i) {
    const Wire& wire = port.wires[i];
    if (wire.is_constant()) {
      codes.push_back(static_cast<int32_t>(wire.element));
      continue;
    }
    const Signal& signal = signal_of(circuit, wire);
    const auto element = static_cast<size_t>(wire.element);
    const auto found = sums.find(signal.node);
    // float32 does not hold every sum.
    if (found != sums.end() && std::holds_alternative<ScaledMeaning>(signal.meaning)) {
      const auto at = static_cast<size_t>(sample * signal.elements) + element;
      codes.push_back(found->second.values<int32_t>()[at]);
    } else {
      codes.push_back(exact_code(signal, element, values[i]));
    }
  }
  return codes;
}

std::span<const float> sample_of(const Tensor& tensor, int64_t sample) {
  const auto count = static_cast<size_t>(tensor.numel() / tensor.dim(0));
  return tensor.values<float>().subspan(static_cast<size_t>(sample) * count, count);
}

}  // namespace

TestVectors integer_vectors(const Graph& graph, const Circuit& circuit, const std::vector<Tensor>& inputs) {
  constexpr int64_t kBatch = 256;
  std::vector<std::string> notes;
  const Graph integers = integer_graph(graph, notes);
  check_integer_execution(integers);
  const IntegerProgram program(integers);
  TestVectors vectors;
  const int64_t samples = inputs.front().dim(0);
  for (int64_t first = 0; first < samples; first += kBatch) {
    const int64_t last = std::min(first + kBatch, samples);
    std::vector<Tensor> batch;
    for (const Tensor& input : inputs) batch.push_back(input.rows(first, last));
    ObservedSums sums;
    const std::vector<Tensor> outputs =
        program.run_observed(batch, {}, [&](const Node& node, const IntegerResult& result) {
          if (result.sums != nullptr) sums[node.name] = result.integers.clone();
        });
    for (int64_t sample = 0; sample < last - first; ++sample) {
      std::vector<SignalCodes>& in = vectors.inputs.emplace_back();
      for (size_t i = 0; i < batch.size(); ++i) {
        SignalCodes& codes = in.emplace_back();
        const Signal& signal = circuit.signal_of(circuit.inputs[i]);
        for (const float value : sample_of(batch[i], sample)) codes.push_back(rounded_code(signal, value));
      }
      std::vector<SignalCodes>& out = vectors.outputs.emplace_back();
      for (size_t i = 0; i < outputs.size(); ++i)
        out.push_back(output_codes(circuit, circuit.outputs[i], sample_of(outputs[i], sample), sums, sample));
    }
  }
  return vectors;
}

TestVectors random_vectors(const Graph& graph, const Circuit& circuit, int64_t samples, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Tensor> inputs;
  for (const CircuitPort& port : circuit.inputs) {
    const Signal& signal = circuit.signal_of(port);
    Shape shape = {samples};
    shape.insert(shape.end(), port.shape.begin(), port.shape.end());
    Tensor& tensor = inputs.emplace_back(DType::kFloat32, shape);
    const auto count = static_cast<uint64_t>(signal.codes.high - signal.codes.low + 1);
    for (float& value : tensor.values<float>())
      value = code_value(signal.meaning, 0, signal.codes.low + static_cast<int64_t>(random() % count));
  }
  return integer_vectors(graph, circuit, inputs);
}

std::string hex_lines(const std::vector<std::vector<SignalCodes>>& samples, size_t port,
                      const WireRange& codes) {
  const auto width = static_cast<size_t>(codes.width());
  std::string text;
  for (const std::vector<SignalCodes>& sample : samples) {
    const SignalCodes& elements = sample[port];
    std::string digits((elements.size() * width + 3) / 4, '0');
    for (size_t i = 0; i < elements.size() * width; ++i) {
      if ((static_cast<uint64_t>(elements[i / width]) >> (i % width) & 1) == 0) continue;
      char& digit = digits[digits.size() - 1 - i / 4];
      const int value = (digit >= 'a' ? digit - 'a' + 10 : digit - '0') | 1 << (i % 4);
      digit = "0123456789abcdef"[value];
    }
    text += digits + '\n';
  }
  return text;
}

}  // namespace detent
