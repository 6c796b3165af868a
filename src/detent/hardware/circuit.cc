#include "detent/hardware/circuit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "detent/core/error.h"

namespace detent {

float code_value(const CodeMeaning& meaning, size_t element, int64_t code) {
  if (const auto* affine = std::get_if<AffineMeaning>(&meaning))
    return affine->type.value(static_cast<int32_t>(code));
  if (const auto* list = std::get_if<ListMeaning>(&meaning))
    return list->values.at(static_cast<size_t>(code));
  const auto& scale = std::get<ScaledMeaning>(meaning).scale;
  return static_cast<float>(code) * scale[scale.size() == 1 ? 0 : element];
}

std::string meaning_text(const CodeMeaning& meaning) {
  if (const auto* affine = std::get_if<AffineMeaning>(&meaning)) {
    if (affine->type.zero_point == 0) return fmt::format("code * {}", affine->type.scale);
    return fmt::format("(code - {}) * {}", affine->type.zero_point, affine->type.scale);
  }
  constexpr size_t kMostNamed = 16;
  if (const auto* list = std::get_if<ListMeaning>(&meaning)) {
    const auto named = std::span(list->values).first(std::min(list->values.size(), kMostNamed));
    return fmt::format("the value at place code of {}{}", fmt::join(named, ", "),
                       list->values.size() > kMostNamed ? ", ..." : "");
  }
  const auto& scale = std::get<ScaledMeaning>(meaning).scale;
  if (scale.size() == 1) return fmt::format("code * {}", scale.front());
  return "code * a scale an element, see report.json";
}

int32_t LookupBody::code(const Neuron& neuron, int64_t sum) const {
  int64_t result = sum;
  if (neuron.has_thresholds)
    result = std::ranges::upper_bound(neuron.thresholds, sum) - neuron.thresholds.begin();
  return results.empty() ? static_cast<int32_t>(result) : results[static_cast<size_t>(result)];
}

const Signal& Circuit::signal_of(const CircuitPort& port) const {
  for (const Wire& wire : port.wires) {
    if (!wire.is_constant()) return signals[static_cast<size_t>(wire.signal)];
  }
  fail("port \"{}\": nothing drives it", port.source);
}

}  // namespace detent
