#pragma once

#include <span>

namespace detent {

/// A function of one float32, by operations of IEEE 754 alone, so that the bits do not depend on the
/// processor. Kinds up to kAtanh are computed in double and rounded once: within 0.51 units in the last place
/// of the function; kSilu and kGelu, which are computed in float32 for their speed, within 3, or 2^-126. The
/// kinds from kAbs on are a few operations in float32. NaN gives NaN.
struct ElementFunction {
  enum class Kind {
    kExp,
    kLog,
    kErf,
    kTanh,
    kSigmoid,
    kSilu,      // x sigmoid(x)
    kMish,      // x tanh(log(1 + exp(x)))
    kGelu,      // x P(N(0, 1) < x)
    kGeluTanh,  // 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
    kSoftplus,  // log(1 + exp(a x)) / a, or x where a x > b
    kElu,       // a x, or b (exp(c x) - 1) where x <= 0
    kSin,
    kCos,
    kTan,
    kAsin,
    kAcos,
    kAtan,
    kSinh,
    kCosh,
    kAsinh,
    kAcosh,
    kAtanh,
    kAbs,
    kNegative,
    kSign,  // -1, 0 or 1; zeros keep their sign
    kSqrt,
    kReciprocal,  // 1 / x
    kFloor,
    kCeil,
    kRound,      // of two nearest integers the even one
    kSoftsign,   // x / (|x| + 1)
    kHardswish,  // x min(max(x + 3, 0), 6) / 6
  };
  Kind kind;
  double a = 1;
  double b = 1;
  double c = 1;

  /// Whether it is operations in float32, each rounded by itself, which any program does alike.
  bool is_exact() const { return kind >= Kind::kAbs; }
};

/// `results` may be `values`.
void apply_function(const ElementFunction& function, std::span<const float> values, std::span<float> results);

/// a^b, computed as functions of elements are. One of both may be a single number.
void apply_power(std::span<const float> base, std::span<const float> exponent, std::span<float> results);

// Without vectors.
float function_reference(const ElementFunction& function, float x);
float power_reference(float base, float exponent);

}  // namespace detent
