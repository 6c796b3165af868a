#include "detent/formats/groups/calibrating.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "detent/core/error.h"
#include "detent/formats/groups/group.h"

namespace detent {
namespace {

/// What most formats are like.
template <class F>
struct Calibrating {};

template <>
struct Calibrating<Fixed> {
  static const char* assumed_key(const Fixed& format) { return format.frac_width ? nullptr : "frac_width"; }
};

struct AssumesBias {
  static const char* assumed_key(const auto& format) {
    return format.exponent_bias ? nullptr : "exponent_bias";
  }
};
template <>
struct Calibrating<MinifloatIeee> : AssumesBias {};
template <>
struct Calibrating<MinifloatDenorm> : AssumesBias {};
template <>
struct Calibrating<Log> : AssumesBias {};

/// The threshold is 0.05 of the range's end.
template <>
struct Calibrating<Ternary> {
  static constexpr double kWidestRangeFactor = 20;

  static bool is_scaled_by_data(const Ternary& format) { return format.scaling_factor; }
  static Ternary without_data_scale(Ternary format) {
    format.scaling_factor = false;
    return format;
  }
};

/// gamma_l = mean |r_l|, which is the least squared error that level l can reach after the ones before it.
template <>
struct Calibrating<BinaryResidual> {
  static BinaryResidual fitted(BinaryResidual format, const CountedValues& data) {
    std::vector<float> residuals(data.values.begin(), data.values.end());
    double count = 0;
    for (const int64_t each : data.counts) count += static_cast<double>(each);
    format.gamma.clear();
    for (int level = 0; level < format.levels; ++level) {
      double sum = 0;
      for (size_t i = 0; i < residuals.size(); ++i)
        sum += std::fabs(static_cast<double>(residuals[i])) * static_cast<double>(data.counts[i]);
      const float gamma = std::min(static_cast<float>(sum / count), BinaryResidual::kMostGamma);
      for (float& residual : residuals) residual -= residual >= 0 ? gamma : -gamma;
      format.gamma.push_back(gamma);
    }
    return format;
  }
};

template <class F>
concept Fitted = requires(const F format, const CountedValues& data) {
  Calibrating<F>::fitted(format, data);
};

}  // namespace

const char* assumed_key(const Format& format) {
  return std::visit(
      []<class F>(const F& f) -> const char* {
        if constexpr (requires { Calibrating<F>::assumed_key(f); }) {
          return Calibrating<F>::assumed_key(f);
        } else {
          return nullptr;
        }
      },
      format);
}

QuantSpec completed_from(const Tensor& tensor, const QuantSpec& spec) {
  if (assumed_key(spec.format) == nullptr || tensor.numel() == 0) return spec;
  const Group all(tensor.values<float>(), {.inner = tensor.numel()}, 0);
  const Interval range = all.range_with_zero();
  QuantSpec result = spec;
  result.format = qparams_from_range(spec.format, {&range, 1}, ScaleForm::kFloat, "quantization");
  return result;
}

bool is_calibratable(const Format& format) {
  return std::visit([]<class F>(const F&) { return RangedFormat<F> || Fitted<F>; }, format);
}

double widest_range_factor(const Format& format) {
  return std::visit(
      []<class F>(const F&) {
        if constexpr (requires { Calibrating<F>::kWidestRangeFactor; }) {
          return Calibrating<F>::kWidestRangeFactor;
        } else {
          return 1.0;
        }
      },
      format);
}

bool is_scaled_by_data(const Format& format) {
  return std::visit(
      []<class F>(const F& f) {
        if constexpr (requires { Calibrating<F>::is_scaled_by_data(f); }) {
          return Calibrating<F>::is_scaled_by_data(f);
        } else {
          return false;
        }
      },
      format);
}

Format without_data_scale(const Format& format) {
  return std::visit(
      []<class F>(const F& f) -> Format {
        if constexpr (requires { Calibrating<F>::without_data_scale(f); }) {
          return Calibrating<F>::without_data_scale(f);
        } else {
          return f;
        }
      },
      format);
}

bool is_fitted(const Format& format) {
  return std::visit([]<class F>(const F&) { return Fitted<F>; }, format);
}

Format fitted(const Format& format, const CountedValues& data) {
  return std::visit(
      [&]<class F>(const F& f) -> Format {
        if constexpr (Fitted<F>) {
          return Calibrating<F>::fitted(f, data);
        } else {
          DETENT_CHECK(false, "{} is not fitted to values", F::kName);
        }
      },
      format);
}

}  // namespace detent
