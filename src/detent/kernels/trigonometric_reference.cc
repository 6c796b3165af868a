#include "detent/kernels/functions_reference.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "detent/kernels/coefficients.h"

namespace detent {
namespace {

namespace c = coefficients;

double sine_near_zero(double r) { return r * polynomial_reference(r * r, c::kSine); }
double cosine_near_zero(double r) { return polynomial_reference(r * r, c::kCosine); }

double less_multiple_of_pi(double x, double n) { return std::fma(n, -c::kPiRest, std::fma(n, -c::kPi, x)); }

/// The first binary places of 2 / pi. The largest float32 takes 206 of them.
constexpr uint64_t kTwoOverPi[] = {0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
                                   0xfe5163abdebbc561};

uint64_t places_of_two_over_pi(int first) {
  const auto word = static_cast<size_t>(first / 64);
  const int shift = first % 64;
  if (shift == 0) return kTwoOverPi[word];
  return (kTwoOverPi[word] << shift) | (kTwoOverPi[word + 1] >> (64 - shift));
}

/// x = rest + quarters pi / 2, where |rest| <= pi / 4; of the quarters, the two lowest bits.
struct Reduced {
  double rest;
  unsigned quarters;
};

/// x = m 2^e, with a whole m below 2^24. Of x 2 / pi, the places of 2 / pi before 2^(1 - e) give multiples
/// of 4. The 104 from there on, times m, are x 2 / pi modulo 4 in units of 2^-102, less at most 2^-78. The
/// nearest that a float32 comes to a multiple of pi / 2 leaves 2^-30 of it; the 64 bits taken err by 2^-34 of
/// that.
Reduced reduce_huge(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint64_t m = ((bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{1} << 52)) >> 29;
  const int e = static_cast<int>((bits >> 52) & 0x7ff) - 1023 - 23;
  const uint64_t low = m * (places_of_two_over_pi(e - 2 + 64) >> 24);
  const uint64_t turn = m * places_of_two_over_pi(e - 2) + (low >> 40);
  const auto quarters = static_cast<unsigned>((turn + (uint64_t{1} << 61)) >> 62);
  const auto fraction = static_cast<int64_t>((turn << 2) | ((low >> 38) & 3));
  const double rest = static_cast<double>(fraction) * (c::kPi * 0x1p-65);
  return std::signbit(x) ? Reduced{-rest, -quarters & 3} : Reduced{rest, quarters & 3};
}

/// sin(x + quarters pi / 2)
double huge_sine(double x, unsigned quarters) {
  if (std::isinf(x)) return NAN;
  const Reduced by = reduce_huge(x);
  quarters += by.quarters;
  const double sine = quarters % 2 == 0 ? sine_near_zero(by.rest) : cosine_near_zero(by.rest);
  return (quarters & 2) != 0 ? -sine : sine;
}

/// sin(x + shift pi)
double shifted_sine(double x, double shift) {
  const double rounded = std::fma(x, c::kInversePi, shift) + c::kRounder;
  const double sine = sine_near_zero(less_multiple_of_pi(x, rounded - c::kRounder - shift));
  return std::bit_cast<uint64_t>(rounded) % 2 != 0 ? -sine : sine;
}

bool is_huge(double x) { return std::fabs(x) >= c::kHugeAngle; }

struct ArcSine {
  double angle;
  bool is_half;
};

ArcSine split_arc_sine(double x) {
  const double t = std::fabs(x);
  const bool is_half = t > 0.5;
  const double rest = (1 - t) * 0.5;
  const double sine = is_half ? std::sqrt(rest) : t;
  return {std::copysign(sine * polynomial_reference(is_half ? rest : t * t, c::kAsin), x), is_half};
}

/// atan(place) + turn
double turned_arc_tangent(double place, double turn) {
  return std::fma(place, polynomial_reference(place * place, c::kAtan), turn);
}

double positive_arc_tangent(double t) {
  if (t < c::kTanOfEighth) return turned_arc_tangent(t, 0);
  if (t > 1 / c::kTanOfEighth) return turned_arc_tangent(-1 / t, c::kPi / 2);
  return turned_arc_tangent((t - 1) / (t + 1), c::kPi / 4);
}

}  // namespace

double sine_reference(double x) { return is_huge(x) ? huge_sine(x, 0) : shifted_sine(x, 0); }

double cosine_reference(double x) { return is_huge(x) ? huge_sine(x, 1) : shifted_sine(x, 0.5); }

double tangent_reference(double x) {
  if (std::isinf(x)) return NAN;
  const double rounded = std::fma(x, 2 * c::kInversePi, c::kRounder);
  const auto by = is_huge(x) ? reduce_huge(x)
                             : Reduced{less_multiple_of_pi(x, (rounded - c::kRounder) * 0.5),
                                       static_cast<unsigned>(std::bit_cast<uint64_t>(rounded) & 3)};
  const double sine = sine_near_zero(by.rest);
  const double cosine = cosine_near_zero(by.rest);
  return by.quarters % 2 == 0 ? sine / cosine : cosine / -sine;
}

double arc_sine_reference(double x) {
  if (std::fabs(x) > 1) return NAN;
  const auto [angle, is_half] = split_arc_sine(x);
  return is_half ? std::fma(angle, -2, std::copysign(c::kPi / 2, x)) : angle;
}

double arc_cosine_reference(double x) {
  if (std::fabs(x) > 1) return NAN;
  const auto [angle, is_half] = split_arc_sine(x);
  return is_half ? std::fma(angle, 2, x < 0 ? c::kPi : 0) : c::kPi / 2 - angle;
}

double arc_tangent_reference(double x) { return std::copysign(positive_arc_tangent(std::fabs(x)), x); }

}  // namespace detent
