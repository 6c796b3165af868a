#include "detent/formats/groups/calibrating.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "detent/core/error.h"
#include "detent/formats/groups/group.h"
#include "detent/formats/verbs.h"

namespace detent {
namespace {

/// Traits of most formats.
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

/// Values nearest to an entry, as positions in sorted values: [begin, end) of entry i is [cells[i], cells[i +
/// 1]).
std::vector<size_t> nearest_cells(const std::vector<float>& entries, const std::vector<double>& sorted) {
  std::vector<size_t> cells = {0};
  for (size_t i = 0; i + 1 < entries.size(); ++i) {
    const double bound = (static_cast<double>(entries[i]) + static_cast<double>(entries[i + 1])) / 2;
    cells.push_back(static_cast<size_t>(std::ranges::upper_bound(sorted, bound) - sorted.begin()));
  }
  cells.push_back(sorted.size());
  return cells;
}

/// Each entry becomes the mean of the values nearest to it until none moves (Lloyd 1982, "Least Squares
/// Quantization in PCM"), from the given entries stretched to the range of the values. An entry that no value
/// is nearest to stays.
template <>
struct Calibrating<Codebook> {
  static Codebook fitted(const Codebook& format, const CountedValues& data) {
    constexpr int kMostRounds = 200;
    std::vector<size_t> order(data.values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t i) { return data.values[i]; });
    std::vector<double> sorted, counts = {0}, sums = {0};  // of all values before
    for (const size_t i : order) {
      const auto value = static_cast<double>(data.values[i]);
      const auto count = static_cast<double>(data.counts[i]);
      sorted.push_back(value);
      counts.push_back(counts.back() + count);
      sums.push_back(sums.back() + value * count);
    }
    const Interval range{static_cast<float>(sorted.front()), static_cast<float>(sorted.back())};
    Codebook result = format.qparams_from_range({&range, 1}, ScaleForm::kFloat);
    for (int round = 0; round < kMostRounds; ++round) {
      const std::vector<float> before = result.entries;
      const std::vector<size_t> cells = nearest_cells(before, sorted);
      for (size_t i = 0; i < before.size(); ++i) {
        const double count = counts[cells[i + 1]] - counts[cells[i]];
        if (count > 0) result.entries[i] = static_cast<float>((sums[cells[i + 1]] - sums[cells[i]]) / count);
      }
      separate_entries(result.entries);
      if (result.entries == before) break;
    }
    return result;
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

bool is_ranged(const Format& format) {
  return std::visit([]<class F>(const F&) { return RangedFormat<F>; }, format);
}

Format with_scale(const Format& format) {
  return std::visit(
      []<class F>(const F& f) -> Format {
        if constexpr (requires { F::kStandard; }) {
          const auto elements = enum_names(ScaledElement());
          const auto found = std::ranges::find(elements, std::string_view(F::kName));
          if (found != elements.end())
            return Scaled{.element = static_cast<ScaledElement>(found - elements.begin())};
        }
        return f;
      },
      format);
}

QuantSpec with_weight_scales(const QuantSpec& spec, Granularity granularity, int64_t axis,
                             std::optional<int64_t> group_size) {
  QuantSpec result = spec;
  result.format = with_scale(spec.format);
  if (auto* ternary = std::get_if<Ternary>(&result.format)) ternary->scaling_factor = true;
  if (auto* binary = std::get_if<Binary>(&result.format)) {
    if (binary->scaling != BinaryScaling::kNone) return result;
    const bool by_channel = granularity == Granularity::kChannel;
    binary->scaling = by_channel ? BinaryScaling::kPerChannel : BinaryScaling::kPerTensor;
    result.axis = by_channel ? axis : 0;
    return result;
  }
  if (!may_have_channels(result.format)) return result;
  if (spec.granularity == Granularity::kTensor) {
    result.granularity = granularity;
    result.group_size = group_size;
  }
  if (result.granularity != Granularity::kTensor && spec.axis == 0) result.axis = axis;
  return result;
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
