#include "detent/hardware/design.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace detent {
namespace {

/// Digits other than 0 of the form with digits -1, 0, 1 that has the fewest: those of 3 n where n differs
/// (H. Prodinger 2000).
int64_t digit_count(int64_t number) {
  const auto n = static_cast<uint64_t>(std::abs(number));
  return std::popcount((3 * n) ^ n);
}

int64_t adders(int64_t bits, int64_t sum_bits) { return std::max<int64_t>(2 * bits - sum_bits, 0); }

int64_t requantizer_luts(const Requantizer& function, const WireRange& sums) {
  const int64_t width = sums.width();
  if (function.kind == Requantizer::Kind::kThresholds) {
    const int64_t count = std::ssize(function.thresholds);
    return count * ((width + 4) / 5) + 2 * std::max<int64_t>(count - 1, 0);
  }
  const WireRange rounded{(sums.low * function.multiplier) >> function.shift,
                          (sums.high * function.multiplier) >> function.shift};
  return 2 * ((digit_count(function.multiplier) - 1) * width + rounded.width() + function.codes.width());
}

int64_t luts_of(const SumBody& body, const Layer& layer) {
  const int64_t bits = layer.input_codes.width() + (layer.input_codes.is_signed() ? 1 : 0);
  int64_t luts = 0;
  for (const SumBody::Channel& channel : body.channels) {
    int64_t digits = 0;
    for (const SumBody::Term& term : channel.terms) digits += digit_count(term.weight);
    luts += adders(digits * bits, channel.sums.width());
    if (channel.requantizer) luts += requantizer_luts(*channel.requantizer, channel.sums);
  }
  return luts * std::ssize(body.windows);
}

int64_t luts_of(const RequantizeBody& body, const Layer& layer) {
  int64_t luts = 0;
  for (const int32_t function : body.of_element)
    luts += requantizer_luts(body.functions[static_cast<size_t>(function)], layer.input_codes);
  return luts;
}

int64_t luts_of(const LargestBody& body, const Layer& layer) {
  const int64_t bits = layer.input_codes.width();
  int64_t luts = 0;
  for (const std::vector<int32_t>& window : body.windows) {
    for (size_t i = 1; i < window.size(); ++i) {
      const bool constant = layer.inputs[static_cast<size_t>(window[i])].is_constant();
      luts += constant ? bits : (5 * bits + 1) / 2;
    }
  }
  return luts;
}

int64_t luts_of(const LookupBody& /*body*/, const Layer& /*layer*/) { return 0; }

}  // namespace

int64_t estimated_luts(const Layer& layer) {
  return std::visit([&](const auto& body) { return luts_of(body, layer); }, layer.body);
}

}  // namespace detent
