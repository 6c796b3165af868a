#include "detent/graph/operator_arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/text.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

using Function = RecurrentActivation::Function;

/// Nothing need follow the last separator.
std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts = text_parts(text, separator);
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

double number_of(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number))
    fail("attribute \"activations\": got \"{}\", expected a number", text);
  return number;
}

RecurrentActivation activation_of(std::string_view text) {
  const std::vector<std::string> parts = parts_of(text, ':');
  constexpr auto kNames = enum_names(Function());
  const auto* name = std::ranges::find(kNames, parts.empty() ? "" : parts[0],
                                       [](const char* n) { return std::string_view(n); });
  if (name == kNames.end()) {
    const std::vector<std::string> known(kNames.begin(), kNames.end());
    fail("attribute \"activations\": {}",
         unknown_name_message("function", parts.empty() ? "" : std::string(parts[0]), known));
  }
  const auto function = static_cast<Function>(name - kNames.begin());
  const RecurrentActivationDefaults defaults = activation_defaults(function);
  if (parts.size() > 1 + defaults.count)
    fail("attribute \"activations\": got \"{}\", expected at most {} numbers", text, defaults.count);
  return {function, parts.size() > 1 ? number_of(parts[1]) : defaults.alpha,
          parts.size() > 2 ? number_of(parts[2]) : defaults.beta};
}

}  // namespace

RecurrentActivationDefaults activation_defaults(RecurrentActivation::Function function) {
  switch (function) {
    case Function::kAffine:
    case Function::kScaledTanh:
      return {2, 1, function == Function::kAffine ? 0.0 : 1.0};
    case Function::kLeakyRelu:
      return {1, 0.01, 0};
    case Function::kThresholdedRelu:
    case Function::kElu:
      return {1, 1, 0};
    case Function::kHardSigmoid:
      return {2, 0.2, 0.5};
    default:
      return {0, 0, 0};
  }
}

std::vector<RecurrentActivation> recurrent_activations(const Node& node, size_t count) {
  std::vector<RecurrentActivation> activations;
  const std::string& text = text_attribute(node, "activations");
  for (const std::string& part : parts_of(text, ' ')) activations.push_back(activation_of(part));
  if (activations.size() != count)
    fail("attribute \"activations\": got \"{}\", expected {} functions", text, count);
  return activations;
}

bool is_recurrent_weight(const Node& node, size_t input) {
  return input > 0 && find_operator(node.op).reduction_dim(fmt::format("data_in_{}", input)) == -1;
}

int64_t recurrent_directions(const Node& node) {
  return choice_attribute(node, "direction") == "bidirectional" ? 2 : 1;
}

}  // namespace detent
