#include "detent/formats/elements/binary_residual.h"

#include <numeric>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/elements/binary_residual.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/formats/elements/element_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

template <class D>
class BinaryResidualKernel {
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;

 public:
  BinaryResidualKernel(D /*d*/, const BinaryResidualParameters& p, uint64_t /*first_index*/)
      : gammas_(p.gammas.data()),
        levels_(p.gammas.size()),
        lowest_code_(p.lowest_code.empty() ? nullptr : p.lowest_code.data()) {}

  HWY_INLINE V Round(D d, V x, uint64_t /*index*/) const {
    V residual = x;
    V sum = hn::Zero(d);
    for (size_t level = 0; level < levels_; ++level) {
      const V gamma = hn::Set(d, gammas_[level]);
      const V term = hn::IfThenElse(hn::Ge(residual, hn::Zero(d)), gamma, hn::Neg(gamma));
      residual = hn::Sub(residual, term);
      sum = hn::Add(sum, term);
    }
    return hn::IfThenElse(hn::IsNaN(x), x, sum);
  }

  HWY_INLINE VI Encode(D d, V x, uint64_t /*index*/) const {
    const DI di;
    V residual = x;
    VI code = hn::Zero(di);
    for (size_t level = 0; level < levels_; ++level) {
      const V gamma = hn::Set(d, gammas_[level]);
      const auto positive = hn::Ge(residual, hn::Zero(d));
      const VI bit = hn::Set(di, int32_t{1} << level);
      code = hn::Or(code, hn::IfThenElseZero(hn::RebindMask(di, positive), bit));
      residual = hn::Sub(residual, hn::IfThenElse(positive, gamma, hn::Neg(gamma)));
    }
    return lowest_code_ == nullptr ? code : hn::GatherIndex(di, lowest_code_, code);
  }

  HWY_INLINE V Decode(D d, VI code) const {
    const DI di;
    V sum = hn::Zero(d);
    for (size_t level = 0; level < levels_; ++level) {
      const V gamma = hn::Set(d, gammas_[level]);
      const VI bit = hn::And(code, hn::Set(di, int32_t{1} << level));
      const auto negative = hn::RebindMask(d, hn::Eq(bit, hn::Zero(di)));
      sum = hn::Add(sum, hn::IfThenElse(negative, hn::Neg(gamma), gamma));
    }
    return sum;
  }

 private:
  const float* gammas_;
  size_t levels_;
  const int32_t* lowest_code_;
};

ElementKernels<BinaryResidualParameters> BinaryResidualKernels() {
  return KernelsOf<BinaryResidualParameters, BinaryResidualKernel>();
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(BinaryResidualKernels);

ElementKernels<BinaryResidualParameters> BinaryResidualParameters::kernels() {
  return HWY_DYNAMIC_DISPATCH(BinaryResidualKernels)();
}

void BinaryResidual::validate(const std::string& where) const {
  if (gamma.empty() || gamma.size() == static_cast<size_t>(levels)) return;
  fail("{}: key \"gamma\": got {} values, expected one for each of {} levels", where, gamma.size(), levels);
}

std::vector<float> BinaryResidual::values(const std::string& where) const {
  if (gamma.empty()) fail("{}: the values depend on the data, because gamma is not given", where);
  std::vector<float> sums = {0.0F};
  for (const float each : gamma) {
    std::vector<float> next;
    for (const float sum : sums) next.insert(next.end(), {sum - each, sum + each});
    sums = std::move(next);
  }
  std::ranges::sort(sums);
  sums.erase(std::unique(sums.begin(), sums.end()), sums.end());
  return sums;
}

namespace {

/// The value of every code.
std::vector<float> values_of_codes(const std::vector<float>& gammas) {
  std::vector<float> values(size_t{1} << gammas.size());
  for (size_t code = 0; code < values.size(); ++code) {
    for (size_t l = 0; l < gammas.size(); ++l) values[code] += (code >> l & 1) != 0 ? gammas[l] : -gammas[l];
  }
  return values;
}

BinaryResidualParameters with_gammas(std::vector<float> gammas) {
  BinaryResidualParameters result{.gammas = std::move(gammas)};
  const std::vector<float> values = values_of_codes(result.gammas);
  std::vector<int32_t> by_value(values.size());
  std::iota(by_value.begin(), by_value.end(), 0);
  std::ranges::stable_sort(by_value, {}, [&](int32_t code) { return values[static_cast<size_t>(code)]; });
  std::vector<int32_t> lowest = by_value;
  bool differs = false;
  for (size_t i = 0; i < by_value.size(); ++i) {
    const auto value = [&](size_t at) { return values[static_cast<size_t>(by_value[at])]; };
    const bool repeated = i > 0 && value(i) == value(i - 1);
    const auto code = static_cast<size_t>(by_value[i]);
    lowest[code] = repeated ? lowest[static_cast<size_t>(by_value[i - 1])] : by_value[i];
    differs = differs || repeated;
  }
  if (differs) result.lowest_code = std::move(lowest);
  return result;
}

}  // namespace

BinaryResidualParameters BinaryResidual::parameters(const Group& group, uint64_t /*seed*/) const {
  std::vector<float> gammas = gamma;
  while (gammas.size() < static_cast<size_t>(levels)) {
    gammas.push_back(std::min(static_cast<float>(group.residual_magnitudes(gammas).mean()), kMostGamma));
  }
  return with_gammas(std::move(gammas));
}

std::vector<ParameterStream> BinaryResidual::streams() const {
  if (!gamma.empty()) return {};
  return {{"scales", DType::kFloat32, levels}};
}

void BinaryResidual::store(const Parameters& group, double* numbers) const {
  if (gamma.empty()) std::ranges::copy(group.gammas, numbers);
}

BinaryResidualParameters BinaryResidual::stored_parameters(const double* numbers) const {
  std::vector<float> gammas = gamma;
  for (size_t l = gammas.size(); l < static_cast<size_t>(levels); ++l)
    gammas.push_back(static_cast<float>(numbers[l]));
  return {.gammas = std::move(gammas)};
}

Interval BinaryResidual::unsaturated(const Parameters& group) const {
  float largest = 0;
  for (const float each : group.gammas) largest += each;
  return {-largest, largest};
}

}  // namespace detent
#endif  // HWY_ONCE
