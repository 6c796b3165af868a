#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "detent/core/error.h"

namespace detent {

// Functions of two elements of one type. Floats follow IEEE 754, rounded once; integers wrap modulo 2^bits.

/// The type that sums and products of integers T wrap in.
template <class T>
using Wrapping = typename std::conditional_t<(sizeof(T) < sizeof(int)), std::type_identity<int>,
                                             std::make_unsigned<T>>::type;

/// Selects by bits: mispredicted branches cost 20 ns an element, and branch-free loops vectorize.
template <class T>
T selected(bool takes_first, T first, T second) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == sizeof(uint32_t), uint32_t, uint64_t>;
    const Bits mask = takes_first ? ~Bits{0} : Bits{0};
    return std::bit_cast<T>((std::bit_cast<Bits>(first) & mask) | (std::bit_cast<Bits>(second) & ~mask));
  } else {
    return takes_first ? first : second;
  }
}

struct Sum {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a + b;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};

struct Difference {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a - b;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
};

struct Product {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a * b;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};

/// Whether the quotient overflows (minimum / -1). Throws Error if the divisor is 0.
template <class T>
bool divides_by_minus_one(T divisor) {
  if (divisor == 0) fail("division of integers by zero");
  return std::is_signed_v<T> && divisor == static_cast<T>(-1);
}

/// Truncates for integers.
struct Quotient {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a / b;
    else
      return divides_by_minus_one(b) ? Difference::of(T(), a) : static_cast<T>(a / b);
  }
};

/// Remainder of truncated division, with the sign of a.
struct TruncationRest {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return std::fmod(a, b);
    else
      return divides_by_minus_one(b) ? T() : static_cast<T>(a % b);
  }
};

/// Remainder of division rounded down, with the sign of b.
struct FloorRest {
  template <class T>
  static T of(T a, T b) {
    const T rest = TruncationRest::of(a, b);
    return rest != 0 && (b < 0) != (rest < 0) ? static_cast<T>(rest + b) : rest;
  }
};

/// Propagates NaN.
struct Larger {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return selected((a > b) != std::isnan(a), a, b);
    else
      return std::max(a, b);
  }
};

struct Smaller {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return selected((a < b) != std::isnan(a), a, b);
    else
      return std::min(a, b);
  }
};

// The same of the bits of two integers.

struct CommonBits {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct AllBits {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct DifferentBits {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

/// a where it is not below 0, else a b
struct Sloped {
  template <class T>
  static T of(T a, T b) {
    return selected(a < 0, Product::of(a, b), a);
  }
};

/// Integers with a negative exponent are truncated towards zero.
struct Power {
  template <class T>
  static T of(T base, T exponent) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::pow(base, exponent);
    } else {
      if (exponent < 0) {
        if (base == 1) return base;
        if (base != static_cast<T>(-1)) return T();
        return exponent % 2 == 0 ? T(1) : base;
      }
      T power = 1;
      for (; exponent > 0; exponent = static_cast<T>(exponent / 2), base = Product::of(base, base))
        if (exponent % 2 != 0) power = Product::of(power, base);
      return power;
    }
  }
};

}  // namespace detent
