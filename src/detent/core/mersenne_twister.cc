#include "detent/core/random_numbers.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace detent {
namespace {

constexpr int kSignificandOfFloat = 24;
constexpr int kSignificandOfDouble = 53;

/// 0 <= x < 1
float unit_float(uint32_t draw) {
  return std::ldexp(static_cast<float>(draw & ((1U << kSignificandOfFloat) - 1)), -kSignificandOfFloat);
}

double unit_double(uint64_t draw) {
  return std::ldexp(static_cast<double>(draw & ((uint64_t{1} << kSignificandOfDouble) - 1)),
                    -kSignificandOfDouble);
}

/// Two independent normal numbers of two uniform ones.
std::pair<double, double> normal_pair(double a, double b) {
  const double radius = std::sqrt(-2 * std::log1p(-a));
  const double angle = 2 * std::numbers::pi * b;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace

uint64_t MersenneTwister::draw64() {
  const uint64_t high = draw();
  return high << 32 | draw();
}

int64_t MersenneTwister::draw_int64() { return static_cast<int64_t>(draw64() & (~uint64_t{0} >> 1)); }

void MersenneTwister::fill_uniform(std::span<float> values, double from, double to) {
  const auto least = static_cast<float>(from);
  const float range = static_cast<float>(to) - least;
  for (float& value : values) value = std::fma(unit_float(draw()), range, least);
}

double MersenneTwister::draw_normal() {
  if (next_normal_) return *std::exchange(next_normal_, std::nullopt);
  const double b = unit_double(draw64());
  const double a = unit_double(draw64());
  const auto [first, second] = normal_pair(a, b);
  next_normal_ = second;
  return first;
}

/// Sixteen at once, of which the first eight are paired with the others; where the last are fewer, they are
/// the last sixteen of all, drawn again.
void MersenneTwister::fill_normal(std::span<float> values, double deviation) {
  constexpr size_t kAtOnce = 16;
  if (values.size() < kAtOnce) {
    for (float& value : values) value = static_cast<float>(draw_normal() * deviation);
    return;
  }
  const auto make_normal = [&](std::span<float> some) {
    for (size_t i = 0; i < kAtOnce / 2; ++i) {
      const auto [first, second] = normal_pair(some[i], some[i + kAtOnce / 2]);
      some[i] = static_cast<float>(first * deviation);
      some[i + kAtOnce / 2] = static_cast<float>(second * deviation);
    }
  };
  for (float& value : values) value = unit_float(draw());
  for (size_t i = 0; i + kAtOnce <= values.size(); i += kAtOnce) make_normal(values.subspan(i, kAtOnce));
  if (values.size() % kAtOnce == 0) return;
  const std::span<float> last = values.last(kAtOnce);
  for (float& value : last) value = unit_float(draw());
  make_normal(last);
}

std::vector<int64_t> MersenneTwister::permutation(int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = 0; i + 1 < count; ++i)
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(i + draw() % (count - i))]);
  return order;
}

MersenneTwister& default_generator() {
  static MersenneTwister generator;
  return generator;
}

}  // namespace detent
