#include "detent/training/narrowing.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/formats/verbs.h"
#include "detent/graph/owned_parameters.h"

namespace detent {
namespace {

/// Nothing where it does not narrow.
std::optional<int> width_of(const Quantizer& quantizer) {
  const std::optional<IntegerCodes> integers = integer_codes(quantizer.spec.format);
  const bool is_learned = scale_parameter(quantizer) && quantizer.find_parameter("width") == nullptr;
  return integers && is_learned ? std::optional(integers->width) : std::nullopt;
}

/// Keeps what the largest code stands for.
void rescale(Quantizer& quantizer, double largest_before, double largest_now) {
  const ScaleParameter kind = *scale_parameter(quantizer);
  const auto factor = static_cast<float>(largest_before / largest_now);
  Tensor& tensor = quantizer.find_parameter(scale_parameter_name(kind))->tensor;
  for (float& value : tensor.values<float>()) {
    if (kind == ScaleParameter::kScale) value *= factor;
    if (kind == ScaleParameter::kLog2 || kind == ScaleParameter::kExponent) value += std::log2(factor);
  }
}

}  // namespace

Narrowing::Narrowing(Graph& graph, const TrainingOptions& options, int64_t total_steps)
    : widths_(options.narrowing), steps_(options.narrowing_steps) {
  if (widths_.empty()) return;
  if (!std::ranges::is_sorted(widths_, std::ranges::greater()))
    fail("narrowing: got {}, expected widths that fall", fmt::join(widths_, ", "));
  const int64_t stages = std::ssize(widths_) * steps_;
  if (stages >= total_steps) {
    fail(
        "narrowing: {} stages of {} steps (narrowing_steps) take {} steps, expected fewer than the {} of "
        "this "
        "training: its last ones are those of the network's own widths",
        widths_.size(), steps_, stages, total_steps);
  }
  std::unordered_set<const Quantizer*> seen;
  for (Node& node : graph.nodes()) {
    for (auto& [operand, quantizer] : node.quantization) {
      const std::optional<int> width = width_of(*quantizer);
      if (width && seen.insert(&*quantizer).second) quantizers_.emplace_back(&*quantizer, *width);
    }
  }
  if (quantizers_.empty())
    fail("narrowing: no quantizer of graph \"{}\" has a scale that is learned", graph.name());
}

bool Narrowing::is_done(int64_t step) const { return step >= std::ssize(widths_) * steps_; }

int Narrowing::width_at(int own, int64_t step) const {
  if (is_done(step)) return own;
  return std::max(own, static_cast<int>(widths_[static_cast<size_t>(step / steps_)]));
}

bool Narrowing::set_widths(int64_t step, bool scales_follow) {
  bool changed = false;
  for (auto& [quantizer, own] : quantizers_) {
    const int now = width_at(own, step);
    if (now == *width_of(*quantizer)) continue;
    const double before = largest_code_of(quantizer->spec);
    quantizer->spec.format = with_width(quantizer->spec.format, now);
    if (scales_follow) rescale(*quantizer, before, largest_code_of(quantizer->spec));
    changed = true;
  }
  return changed;
}

bool Narrowing::advance(int64_t step) { return set_widths(step, true); }
void Narrowing::resume(int64_t step) { set_widths(step, false); }

}  // namespace detent
