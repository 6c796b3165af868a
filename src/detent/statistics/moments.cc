#include "detent/statistics/moments.h"

namespace detent {
namespace {

/// Throws Error when a kept position has no finite value.
template <class State>
void check_filled(const std::vector<State>& states, const char* name) {
  for (size_t slot = 0; slot < states.size(); ++slot) {
    if (states[slot].count == 0)
      fail("{}: no finite value was seen at kept position {} of {}", name, slot, states.size());
  }
}

template <class State, class Function>
Value per_slot(const Reduction& reduction, const std::vector<State>& states, Function value_of) {
  return reduction.shaped([&](size_t slot) { return Value(value_of(states[slot])); });
}

}  // namespace

Table Mean::result(const Options&, const Reduction& reduction, const std::vector<State>& states,
                   int64_t count) {
  check_filled(states, kName);
  return {{"mean", per_slot(reduction, states, [](const State& s) { return s.mean(); })}, {"count", count}};
}

Table AbsMean::result(const Options&, const Reduction& reduction, const std::vector<State>& states,
                      int64_t count) {
  check_filled(states, kName);
  return {{"abs_mean", per_slot(reduction, states, [](const State& s) { return s.mean(); })},
          {"count", count}};
}

Table VarianceOnline::result(const Options&, const Reduction& reduction, const std::vector<State>& states,
                             int64_t count) {
  check_filled(states, kName);
  return {{"mean", per_slot(reduction, states, [](const State& s) { return s.mean(); })},
          {"variance", per_slot(reduction, states, [](const State& s) { return s.variance(); })},
          {"count", count}};
}

Table RangeNSigma::result(const Options& options, const Reduction& reduction,
                          const std::vector<State>& states, int64_t count) {
  check_filled(states, kName);
  const auto width = [&](const State& s) { return options.num_sigma * std::sqrt(s.variance()); };
  return {{"min", per_slot(reduction, states, [&](const State& s) { return s.mean() - width(s); })},
          {"max", per_slot(reduction, states, [&](const State& s) { return s.mean() + width(s); })},
          {"range", per_slot(reduction, states, [&](const State& s) { return 2 * width(s); })},
          {"count", count}};
}

void Kurtosis::State::add(float value, const Options&) {
  if (std::isinf(value)) return;
  sum.add(value);
  squares.add(value);
  cubes.add(value);
  fourths.add(value);
  ++count;
}

void Kurtosis::State::merge(const State& other) {
  sum.merge(other.sum);
  squares.merge(other.squares);
  cubes.merge(other.cubes);
  fourths.merge(other.fourths);
  count += other.count;
}

// With m the mean: sum (x - m)^4 = S4 - 4 m S3 + 6 m^2 S2 - 3 n m^4.
Table Kurtosis::result(const Options&, const Reduction& reduction, const std::vector<State>& states,
                       int64_t count) {
  check_filled(states, kName);
  const auto kurtosis = [](const State& s) {
    const auto n = static_cast<Float128>(s.count);
    const Float128 mean = s.sum.value() / n;
    const Float128 variance = s.squares.value() / n - mean * mean;
    if (!(variance > 0)) return 0.0;
    const Float128 fourth =
        (s.fourths.value() - 4 * mean * s.cubes.value() + 6 * mean * mean * s.squares.value()) / n -
        3 * mean * mean * mean * mean;
    return static_cast<double>(fourth / (variance * variance));
  };
  return {{"kurtosis", per_slot(reduction, states, kurtosis)}, {"count", count}};
}

}  // namespace detent
