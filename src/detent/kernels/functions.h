#pragma once

#include <span>

namespace detent {

/// A function of one float32 that is no single operation of IEEE 754: computed in double by operations that
/// are, and rounded once. The bits do not depend on the processor, and are within 0.51 units in the last
/// place of the function; those of kGelu, which is computed in float32 for its speed, within 3, or 2^-126.
/// NaN gives NaN.
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
  };
  Kind kind;
  double a = 1;
  double b = 1;
  double c = 1;
};

/// `results` may be `values`.
void apply_function(const ElementFunction& function, std::span<const float> values, std::span<float> results);

/// x min(max(x + 3, 0), 6) / 6, each operation rounded by itself. `results` may be `values`.
void apply_hardswish(std::span<const float> values, std::span<float> results);

/// a^b, computed as functions of elements are. One of both may be a single number.
void apply_power(std::span<const float> base, std::span<const float> exponent, std::span<float> results);

// Without vectors.
float function_reference(const ElementFunction& function, float x);
float hardswish_reference(float x);
float power_reference(float base, float exponent);

}  // namespace detent
