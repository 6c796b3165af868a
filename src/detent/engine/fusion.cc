#include "detent/engine/fusion.h"

#include <algorithm>
#include <set>

#include "detent/engine/pair_table.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

bool has_table(const ReferenceStep& step) {
  const auto* form = step.form ? std::get_if<TableForm>(&*step.form) : nullptr;
  return form != nullptr && fits_bytes(form->input) && fits_bytes(form->output);
}

/// The type of the result where `step` can follow on codes of `type`, which its operand `operand` is.
std::optional<CodeType> followed(const ReferenceStep& step, const CodeType& type, const std::string& value,
                                 const ValueTypes& values) {
  if (rectifies_bytes(step, type)) return type;
  if (has_table(step)) {
    const auto& form = std::get<TableForm>(*step.form);
    if (form.input == type) return form.output;
  }
  if (!adds_bytes(step)) return std::nullopt;
  const auto& form = std::get<PairForm>(*step.form);
  const std::string a = value_name(step.node->inputs[0]);
  const std::string b = value_name(step.node->inputs[1]);
  if (a == b || values.at(a).shape != values.at(b).shape) return std::nullopt;
  if ((value == a ? form.a : form.b) != type) return std::nullopt;
  return form.output;
}

}  // namespace

ValueReaders readers_of(std::span<const ReferenceStep> steps) {
  ValueReaders readers;
  for (size_t i = 0; i < steps.size(); ++i) {
    for (const NodeInput& input : steps[i].node->inputs) {
      if (!input.is_constant()) readers[value_name(input)].push_back(i);
    }
  }
  return readers;
}

bool rectifies_bytes(const ReferenceStep& step, const CodeType& type) {
  if (step.form || step.role != OperatorRole::kComputes || !is_rectifier(*step.node)) return false;
  const auto keeps = [&](const std::optional<CodeType>& asked) { return !asked || *asked == type; };
  return fits_bytes(type) && !type.is_sign && keeps(step.inputs[0]) && keeps(step.outputs[0]);
}

bool adds_bytes(const ReferenceStep& step) {
  const auto* form = step.form ? std::get_if<PairForm>(&*step.form) : nullptr;
  return form != nullptr && form->operation == PairOperation::kAdd && pairs_bytes(*form) &&
         has_pair_kernel(*form);
}

std::optional<std::vector<uint8_t>> byte_table(const ReferenceStep& step) {
  if (!has_table(step)) return std::nullopt;
  const auto& form = std::get<TableForm>(*step.form);
  std::vector<uint8_t> table(256);
  for (size_t i = 0; i < form.codes.size(); ++i)
    table[i] = static_cast<uint8_t>(form.codes[i] - form.output.low);
  return table;
}

std::optional<std::pair<uint8_t, uint8_t>> cut_of(const ReferenceStep& step) {
  const auto table = byte_table(step);
  if (!table) return std::nullopt;
  const auto& form = std::get<TableForm>(*step.form);
  if (form.input != form.output || form.input.is_sign) return std::nullopt;
  const uint8_t least = table->front();
  const uint8_t most = (*table)[static_cast<size_t>(form.input.size() - 1)];
  if (least > most) return std::nullopt;
  for (size_t i = 0; i < form.codes.size(); ++i) {
    if ((*table)[i] != std::clamp(static_cast<uint8_t>(i), least, most)) return std::nullopt;
  }
  return std::pair(least, most);
}

std::vector<uint8_t> conversion_table(const CodeType& from, const CodeType& to) {
  std::vector<uint8_t> table(256);
  for (int32_t code = from.low; code <= from.high; ++code)
    table[static_cast<size_t>(code - from.low)] = static_cast<uint8_t>(to.code(from.value(code)) - to.low);
  return table;
}

std::map<size_t, FusedLayer> fused_layers(std::span<const ReferenceStep> steps,
                                          std::span<const size_t> layers, const ValueTypes& values,
                                          const ShownValues& shown) {
  constexpr int kMostAdditions = 2;
  const ValueReaders readers = readers_of(steps);
  std::set<size_t> taken;
  std::map<size_t, FusedLayer> fused;
  for (const size_t layer : layers) {
    FusedLayer found{{layer}, {}};
    const auto* blocks = std::get_if<BlockSumForm>(&*steps[layer].form);
    const std::optional<CodeType>& output =
        blocks != nullptr ? blocks->output : std::get<SumForm>(*steps[layer].form).output;
    int additions = 0;
    if (output) found.type = *output;
    while (output) {
      const std::string value = value_name(steps[found.steps.back()].node->name);
      const auto reading = readers.find(value);
      if (reading == readers.end() || reading->second.size() != 1 || shown.needs(value)) break;
      const size_t next = reading->second.front();
      if (taken.contains(next) || steps[next].role != OperatorRole::kComputes) break;
      if (blocks != nullptr && !rectifies_bytes(steps[next], found.type) && !cut_of(steps[next])) break;
      if (adds_bytes(steps[next]) && ++additions > kMostAdditions) break;
      const std::optional<CodeType> type = followed(steps[next], found.type, value, values);
      if (!type) break;
      taken.insert(next);
      found.steps.push_back(next);
      found.type = *type;
    }
    const size_t last = found.steps.back();
    fused.emplace(last, std::move(found));
  }
  return fused;
}

}  // namespace detent
