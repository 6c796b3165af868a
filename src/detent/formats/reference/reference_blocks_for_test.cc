#include <algorithm>
#include <cmath>
#include <limits>

#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/reference/reference_for_test.h"

namespace detent {
namespace {

constexpr float kLargestFloat = std::numeric_limits<float>::max();

int floor_log2(double value) { return std::ilogb(value); }
int ceil_log2(double value) {
  return std::ilogb(value) + (std::ldexp(1.0, std::ilogb(value)) < value ? 1 : 0);
}

double rounded_to_even(double value) {
  const double below = std::floor(value);
  const double rest = value - below;
  const bool up = rest == 0.5 ? std::fmod(below, 2.0) != 0.0 : rest > 0.5;
  return up ? below + 1 : below;
}

/// Nearest k * 2^(e - mantissa_bits), e >= min_exponent, up to `largest`.
double round_minifloat(double magnitude, int mantissa_bits, int min_exponent, double largest) {
  if (magnitude == 0 || std::isinf(magnitude)) return std::min(magnitude, largest);
  const int step = std::max(floor_log2(magnitude), min_exponent) - mantissa_bits;
  return std::min(std::ldexp(rounded_to_even(std::ldexp(magnitude, -step)), step), largest);
}

/// The magnitude that the magnitude of an element gets, in a block whose largest finite one is `max` > 0.
double block_value(const BlockFp& format, double magnitude, double max) {
  const int bits = format.width - 1;
  const int low = -format.bias();
  const int e = std::clamp(ceil_log2(max), low, low + (1 << format.exponent_width) - 1);
  const double code = rounded_to_even(std::ldexp(magnitude, bits - e));
  return std::ldexp(std::min(code, std::ldexp(1.0, bits) - 1), e - bits);
}

double block_value(const BlockMinifloat& format, double magnitude, double max) {
  const int top = (1 << format.exponent_width) - 1;
  const int bias = std::clamp(top - floor_log2(max), 0, (1 << format.exponent_bias_width) - 1);
  const double largest = std::ldexp(2 - std::ldexp(1.0, -format.mantissa_bits()), top - bias);
  return round_minifloat(magnitude, format.mantissa_bits(), 1 - bias, largest);
}

double block_value(const BlockLog& format, double magnitude, double max) {
  const int top = (1 << (format.width - 1)) - 1;
  const int bias = std::clamp(top - ceil_log2(max), 0, (1 << format.exponent_bias_width) - 1);
  if (std::isinf(magnitude)) return std::ldexp(1.0, top - bias);
  if (magnitude == 0) return std::ldexp(1.0, -bias);
  // m > sqrt(2) just when m * m > 2, exact in double for m of 24 bits.
  const int floor = floor_log2(magnitude);
  const double m = std::ldexp(magnitude, -floor);
  return std::ldexp(1.0, std::clamp(floor + (m * m > 2 ? 1 : 0), -bias, top - bias));
}

double block_value(const Mx& format, double magnitude, double max) {
  struct Element {
    int mantissa_bits, min_exponent, max_exponent;
    double largest;
  };
  const auto element = [&]() -> Element {
    switch (format.element) {
      case MxElement::kE4M3:
        return {3, -6, 8, 448};
      case MxElement::kE5M2:
        return {2, -14, 15, 57344};
      case MxElement::kE3M2:
        return {2, -2, 4, 28};
      case MxElement::kE2M3:
        return {3, 0, 2, 7.5};
      case MxElement::kE2M1:
        return {1, 0, 2, 6};
      case MxElement::kInt8:
        return {6, 0, 0, 1.984375};
    }
    return {};
  }();
  const double scale = std::ldexp(1.0, std::clamp(floor_log2(max) - element.max_exponent, -127, 127));
  return scale *
         round_minifloat(magnitude / scale, element.mantissa_bits, element.min_exponent, element.largest);
}

/// Whether x, of a value of that magnitude, gets a minus: zeros keep the sign they come with, where there are
/// two.
template <class F>
bool is_negative(const F&, float x, float) {
  return std::signbit(x);
}
bool is_negative(const BlockLog&, float x, float) { return x < 0; }
bool is_negative(const Mx& format, float x, float magnitude) {
  return format.element == MxElement::kInt8 ? x < 0 && magnitude > 0 : std::signbit(x);
}

/// The element's value, toward zero where float32 cannot hold it.
template <class F>
float reference_element(const F& format, float, float x, float max) {
  const float of_empty = std::is_same_v<F, BlockLog> ? 1.0F : kLargestFloat;
  const double largest = static_cast<double>(max == 0 ? of_empty : max);
  const double value = block_value(format, std::fabs(static_cast<double>(x)), largest);
  const float held = round_down(std::min(value, static_cast<double>(kLargestFloat)));
  return is_negative(format, x, held) ? -held : held;
}

float reference_element(const Nvfp4& format, float tensor_max, float x, float max) {
  const float of_data = tensor_max / 2688.0F > 0 ? tensor_max / 2688.0F : 1.0F;
  const float tensor_scale = format.tensor_scale.value_or(of_data);
  const float block_scale =
      max > 0 ? reference_minifloat(Fp8E4M3Fn::kGrid, max / 6.0F / tensor_scale) : 448.0F;
  const float scale = block_scale * tensor_scale;
  if (scale == 0) return std::copysign(0.0F, x);
  const float value = reference_minifloat(Fp4E2M1::kGrid, x / scale) * scale;
  return std::clamp(value, -kLargestFloat, kLargestFloat);
}

/// The number of each element's block, by its place in every dimension.
std::vector<size_t> block_numbers(const BlockSize& block_size, std::optional<int64_t> axis,
                                  const Shape& shape) {
  std::vector<size_t> numbers(static_cast<size_t>(element_count(shape)));
  const auto rank = static_cast<int64_t>(shape.size());
  const auto& sizes = block_size.sizes;
  for (int64_t dimension = 0; dimension < rank; ++dimension) {
    const int64_t of_list = dimension - rank + static_cast<int64_t>(sizes.size());
    const int64_t single = (axis.value_or(-1) + rank) % rank;
    int64_t size = of_list < 0 ? 1 : sizes[static_cast<size_t>(of_list)];
    if (block_size.is_single()) size = dimension == single ? sizes[0] : 1;
    const int64_t extent = shape[static_cast<size_t>(dimension)];
    if (size < 0) size = extent;
    const int64_t inner = element_count(Shape(shape.begin() + dimension + 1, shape.end()));
    for (size_t i = 0; i < numbers.size(); ++i) {
      const int64_t place = static_cast<int64_t>(i) / inner % extent;
      numbers[i] = numbers[i] * static_cast<size_t>(extent) + static_cast<size_t>(place / size);
    }
  }
  return numbers;
}

}  // namespace

Tensor reference_blocks(const QuantSpec& spec, const Tensor& input) {
  Tensor output = input.clone();
  const std::span<float> values = output.values<float>();
  const std::vector<size_t> numbers = block_numbers(*block_size(spec.format), spec.block_axis, input.shape());
  std::vector<float> max(values.size());
  float tensor_max = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    max[numbers[i]] = std::max(max[numbers[i]], std::fabs(values[i]));
    tensor_max = std::max(tensor_max, std::fabs(values[i]));
  }
  std::visit(
      [&]<class F>(const F& format) {
        if constexpr (BlockFormat<F>) {
          for (size_t i = 0; i < values.size(); ++i) {
            if (std::isnan(values[i])) continue;
            values[i] = reference_element(format, tensor_max, values[i], max[numbers[i]]);
          }
        }
      },
      spec.format);
  return output;
}

}  // namespace detent
