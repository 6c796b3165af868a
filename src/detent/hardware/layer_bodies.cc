#include "detent/hardware/layer_circuits.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/inference/windows.h"

namespace detent {
namespace {

/// value * 1 / unit, where that is a small whole number.
std::optional<int32_t> multiple(float value, float unit) {
  const float ratio = value / unit;
  if (ratio != std::nearbyint(ratio) || std::fabs(ratio) > 4096) return std::nullopt;
  return static_cast<int32_t>(ratio);
}

bool is_power_of_two(float value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5F;
}

/// Elements of a window of a mean, the same number in all.
int64_t counted_elements(const Node& node, const Shape& input,
                         const std::vector<std::vector<int32_t>>& elements) {
  const size_t taps = elements.front().size();
  bool alike = std::ranges::all_of(elements, [&](const auto& window) { return window.size() == taps; });
  int64_t counted = 1;
  for (const auto& windows : pooling_windows(node, input)) {
    counted *= windows.front().counted;
    for (const PoolingWindow& window : windows) alike = alike && window.counted == windows.front().counted;
  }
  if (!alike) fail("node \"{}\" ({}): its windows differ in size", node.name, node.op);
  return counted;
}

}  // namespace

WireRange hull(const WireRange& a, const WireRange& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

/// In multiples of the smaller scale.
SumBody pair_body(const PairForm& form, const Node& node, int64_t count) {
  const bool adds = form.operation == PairOperation::kAdd;
  if (!adds && form.operation != PairOperation::kSub)
    fail("node \"{}\" ({}): no hardware is made of products of two values", node.name, node.op);
  const float unit = std::min(form.a.scale, form.b.scale);
  const std::optional<int32_t> a = multiple(form.a.scale, unit);
  const std::optional<int32_t> b = multiple(form.b.scale, unit);
  if (form.fixed_point) {
    fail("node \"{}\" ({}): it requantizes by integers and shifts, expected requantization = \"float\"",
         node.name, node.op);
  }
  if (!is_power_of_two(unit) || !a || !b) {
    fail(
        "node \"{}\" ({}): its inputs have the scales {} and {}, expected powers of two, as training with "
        "formats such as fixed:width=8,frac_width=4 gives",
        node.name, node.op, form.a.scale, form.b.scale);
  }
  SumBody body;
  body.channels_last = true;
  for (int32_t i = 0; i < static_cast<int32_t>(count); ++i)
    body.windows.push_back({i, static_cast<int32_t>(count) + i});
  const int32_t sign = adds ? 1 : -1;
  const int64_t bias = -int64_t{*a} * form.a.zero_point - int64_t{sign} * *b * form.b.zero_point;
  const WireRange codes = hull(range_of(form.a), range_of(form.b));
  const CodeType raw{.scale = 1,
                     .zero_point = 0,
                     .low = static_cast<int32_t>(codes.low),
                     .high = static_cast<int32_t>(codes.high)};
  SumBody::Channel channel = sum_channel({{0, *a}, {1, sign * *b}}, bias, raw);
  channel.requantizer =
      find_requantizer([&](int64_t sum) { return int64_t{form.output.code(static_cast<float>(sum) * unit)}; },
                       channel.sums, static_cast<double>(unit) / static_cast<double>(form.output.scale));
  body.channels.push_back(std::move(channel));
  return body;
}

SumBody average_body(const AverageForm& form, const Node& node, const Shape& input) {
  SumBody body;
  body.channels_last = true;
  body.windows = pooling_elements(node, input);
  const int64_t counted = counted_elements(node, input, body.windows);
  std::vector<SumBody::Term> terms;
  for (size_t t = 0; t < body.windows.front().size(); ++t) terms.push_back({static_cast<int32_t>(t), 1});
  SumBody::Channel channel = sum_channel(std::move(terms), 0, form.input);
  channel.requantizer = find_requantizer(
      [&](int64_t sum) { return int64_t{form.code(static_cast<int32_t>(sum), counted)}; }, channel.sums,
      static_cast<double>(form.input.scale) /
          (static_cast<double>(form.output.scale) * static_cast<double>(counted)));
  body.channels.push_back(std::move(channel));
  return body;
}

void add_neurons(const TableLayerView& view, const std::vector<std::vector<int32_t>>& windows,
                 bool channels_last, LookupBody& body) {
  const auto tables =
      std::make_shared<const std::vector<int32_t>>(view.all_tables.begin(), view.all_tables.end());
  const size_t positions = windows.size();
  const auto outputs = static_cast<size_t>(view.outputs);
  body.neurons.resize(positions * outputs);
  for (size_t p = 0; p < positions; ++p) {
    for (size_t o = 0; o < outputs; ++o) {
      const auto output = static_cast<int64_t>(o);
      LookupBody::Neuron& neuron = body.neurons[channels_last ? p * outputs + o : o * positions + p];
      const auto thresholds = view.thresholds_of(output);
      neuron.has_thresholds = view.has_thresholds();
      neuron.thresholds.assign(thresholds.begin(), thresholds.end());
      for (int64_t t = 0; t < view.terms; ++t) {
        LookupBody::Term& term = neuron.terms.emplace_back();
        term.table = tables;
        term.first = (output * view.terms + t) * view.entries;
        for (const int64_t element : view.inputs_of(output, t))
          term.inputs.push_back(windows[p][static_cast<size_t>(element)]);
      }
    }
  }
}

std::optional<LookupBody> tables_of(const RequantizeBody& body, const WireRange& codes) {
  constexpr int kMostTabledBits = 12;
  constexpr int64_t kMostCodes = 4;
  if (codes.width() > kMostTabledBits) return std::nullopt;
  LookupBody made{.levels = codes.high - codes.low + 1, .first_code = codes.low, .neurons = {}};
  std::vector<std::shared_ptr<const std::vector<int32_t>>> tables;
  for (const Requantizer& function : body.functions) {
    if (function.codes.high - function.codes.low >= kMostCodes) return std::nullopt;
    std::vector<int32_t> table;
    for (int64_t code = codes.low; code <= codes.high; ++code)
      table.push_back(static_cast<int32_t>(function.code(code)));
    tables.push_back(std::make_shared<const std::vector<int32_t>>(std::move(table)));
  }
  for (size_t i = 0; i < body.of_element.size(); ++i) {
    made.neurons.push_back(
        {.terms = {{{static_cast<int32_t>(i)}, tables[static_cast<size_t>(body.of_element[i])]}}});
  }
  return made;
}

}  // namespace detent
