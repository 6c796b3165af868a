#include "verdict.h"

#include <cmath>

#include "detent/core/convert.h"

namespace detent {
namespace {

std::string type_difference(const Tensor& expected, const Tensor& actual) {
  if (expected.dtype() == actual.dtype() && expected.shape() == actual.shape()) return "";
  return fmt::format("got {} of shape {}, expected {} of shape {}", dtype_name(actual.dtype()),
                     shape_text(actual.shape()), dtype_name(expected.dtype()), shape_text(expected.shape()));
}

template <class Allowed>
std::string element_difference(const Tensor& expected, const Tensor& actual, const Allowed& is_allowed) {
  if (!is_floating_point(expected.dtype())) {
    if (expected.equals(actual)) return "";
    const Tensor theirs = to_dtype(expected, DType::kInt64);
    const Tensor ours = to_dtype(actual, DType::kInt64);
    for (size_t i = 0; i < theirs.values<int64_t>().size(); ++i) {
      const int64_t a = ours.values<int64_t>()[i];
      const int64_t b = theirs.values<int64_t>()[i];
      if (a != b && !is_allowed(static_cast<double>(a), static_cast<double>(b)))
        return fmt::format("element {} of {}: got {}, expected {}", i, shape_text(ours.shape()), a, b);
    }
    return "";
  }
  const Tensor theirs = to_dtype(expected, DType::kFloat64);
  const Tensor ours = to_dtype(actual, DType::kFloat64);
  for (size_t i = 0; i < theirs.values<double>().size(); ++i) {
    const double a = ours.values<double>()[i];
    const double b = theirs.values<double>()[i];
    if (a == b || (std::isnan(a) && std::isnan(b)) || is_allowed(a, b)) continue;
    return fmt::format("element {} of {}: got {:.9g}, expected {:.9g}", i, shape_text(ours.shape()), a, b);
  }
  return "";
}

}  // namespace

std::string difference(const Tensor& expected, const Tensor& actual) {
  const std::string type = type_difference(expected, actual);
  return type.empty() ? element_difference(expected, actual, [](double, double) { return false; }) : type;
}

std::string difference(const Tensor& expected, const Tensor& actual, const Numbers& numbers) {
  const std::string type = type_difference(expected, actual);
  if (!type.empty()) return type;
  constexpr double kRelative = 1e-5;
  const double absolute = numbers.is_exact() ? 0 : 2 * numbers.error + 1e-7;
  const bool is_float = is_floating_point(expected.dtype());
  return element_difference(expected, actual, [&](double a, double b) {
    if (!is_float) return std::fabs(a - b) <= numbers.apart;
    if (numbers.is_exact() || std::isinf(a) || std::isinf(b)) return false;
    return std::fabs(a - b) <= absolute + kRelative * std::fabs(b);
  });
}

std::string difference(const std::vector<Tensor>& expected, const std::vector<Tensor>& actual,
                       const std::vector<GeneratedValue>& outputs, bool exactly) {
  if (expected.size() != actual.size())
    return fmt::format("{} outputs, expected {}", actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string text =
        exactly ? difference(expected[i], actual[i]) : difference(expected[i], actual[i], outputs[i].numbers);
    if (!text.empty()) return fmt::format("output {}: {}", outputs[i].name, text);
  }
  return "";
}

}  // namespace detent
