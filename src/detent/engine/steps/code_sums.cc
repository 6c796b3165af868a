#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "detent/core/convert.h"
#include "detent/engine/steps/place_rows.h"
#include "detent/kernels/linear_codes.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

/// The numbers of a flow, or one.
template <class T>
std::vector<T> numbers_of(const RunNumber& given, const RunState& state) {
  if (!given.flow) return {static_cast<T>(given.number)};
  const Tensor tensor = to_dtype(state.flows[*given.flow].tensor, DTypeOf<T>::value);
  return {tensor.values<T>().begin(), tensor.values<T>().end()};
}

template <class T>
T of_channel(const std::vector<T>& numbers, int32_t channel) {
  return numbers[numbers.size() == 1 ? 0 : static_cast<size_t>(channel)];
}

void flip_bytes(uint8_t flip, const uint8_t* __restrict from, uint8_t* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] ^ flip;
}

/// Bytes between a place and elements in row-major order; those of signed integers are `flip`ped.
template <bool kToPlace>
void move_integers(const Place& place, RunState& state, uint8_t flip, const uint8_t* from, uint8_t* to) {
  if (!place.has_positions()) {
    for_each_chunk(place, place, state, 1, [&](int64_t first, int64_t /*to*/, int64_t count) {
      flip_bytes(flip, from + first, to + first, count);
    });
    return;
  }
  for_each_line(place, state, [&](int64_t at, int64_t element, int64_t count) {
    const int64_t step = place.channel_step();
    if constexpr (kToPlace) {
      transpose_bytes(from + element, step, count, place.channels(), to + at, place.pitch(), flip);
    } else {
      transpose_bytes(from + at, place.pitch(), place.channels(), count, to + element, step, flip);
    }
  });
}

class BytesOfIntegers final : public EngineStep {
 public:
  BytesOfIntegers(int32_t low, size_t flow, size_t place) : low_(low), flow_(flow), place_(place) {}

  void run(RunState& state) const override {
    const Place& out = state.places[place_];
    const auto* const from = reinterpret_cast<const uint8_t*>(state.flows[flow_].tensor.bytes().data());
    uint8_t* const to = state.bytes(place_);
    const auto flip = static_cast<uint8_t>(low_);
    fill_halo(out, to);
    move_integers<true>(out, state, flip, from, to);
  }

 private:
  int32_t low_;
  size_t flow_;
  size_t place_;
};

class IntegersOfBytes final : public EngineStep {
 public:
  IntegersOfBytes(size_t place, size_t flow) : place_(place), flow_(flow) {}

  void run(RunState& state) const override {
    const Place& in = state.places[place_];
    Tensor integers = unfilled_tensor(in.type.low < 0 ? DType::kInt8 : DType::kUInt8, in.shape);
    auto* const to = reinterpret_cast<uint8_t*>(integers.bytes().data());
    const auto flip = static_cast<uint8_t>(in.type.low);
    move_integers<false>(in, state, flip, state.bytes(place_), to);
    state.flows[flow_] = {std::move(integers)};
  }
  bool takes_slice(size_t /*index*/, const Place& /*place*/) const override { return true; }

 private:
  size_t place_;
  size_t flow_;
};

class IntegersOfValues final : public EngineStep {
 public:
  IntegersOfValues(size_t place, size_t flow) : values_(flow_of_place(place, flow)), flow_(flow) {}

  void run(RunState& state) const override {
    values_->run(state);
    Tensor& tensor = state.flows[flow_].tensor;
    tensor = to_dtype(tensor, DType::kInt32);
  }

 private:
  std::unique_ptr<EngineStep> values_;
  size_t flow_;
};

/// The least and the largest of some values and 0.
struct Extremes {
  float low = 0;
  float high = 0;
  bool has_nan = false;

  void add(const Extremes& other) {
    low = std::min(low, other.low);
    high = std::max(high, other.high);
    has_nan |= other.has_nan;
  }
};

Extremes extremes_of(const float* values, int64_t count) {
  constexpr int64_t kLanes = 16;
  float low[kLanes] = {};
  float high[kLanes] = {};
  int32_t unordered[kLanes] = {};
  const auto take = [&](float x, int64_t lane) {
    low[lane] = x < low[lane] ? x : low[lane];
    high[lane] = x > high[lane] ? x : high[lane];
    unordered[lane] |= x != x ? 1 : 0;
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) take(values[i + lane], lane);
  }
  for (; i < count; ++i) take(values[i], 0);
  Extremes result;
  for (int64_t lane = 0; lane < kLanes; ++lane) result.add({low[lane], high[lane], unordered[lane] != 0});
  return result;
}

class DynamicBytes final : public EngineStep {
 public:
  DynamicBytes(const KernelSet& kernels, size_t from, size_t to, size_t scale, size_t zero)
      : kernels_(kernels), from_(from), to_(to), scale_(scale), zero_(zero) {}

  void run(RunState& state) const override {
    const Place& in = state.places[from_];
    const Place& out = state.places[to_];
    const float* const values = state.values(from_);
    uint8_t* const codes = state.bytes(to_);
    Extremes all;
    std::mutex mutex;
    for_each_chunk(in, in, state, 1, [&](int64_t from, int64_t /*to*/, int64_t count) {
      const Extremes some = extremes_of(values + from, count);
      const std::lock_guard lock(mutex);
      all.add(some);
    });
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    const DynamicCodes way = all.has_nan ? DynamicCodes(kNan, kNan) : DynamicCodes(all.low, all.high);
    for_each_chunk(in, out, state, 1, [&](int64_t from, int64_t to, int64_t count) {
      take(way, values + from, codes + to, count);
    });
    state.flows[scale_] = {Tensor::from<float>({}, std::vector{way.scale})};
    state.flows[zero_] = {Tensor::from<uint8_t>({}, std::vector{way.zero})};
  }
  bool takes_slice(size_t index, const Place& place) const override {
    return index == from_ && has_long_runs(place);
  }

 private:
  void take(const DynamicCodes& way, const float* values, uint8_t* codes, int64_t count) const {
    if (!std::isfinite(way.scale) || way.scale < std::numeric_limits<float>::min()) {
      std::transform(values, values + count, codes, [&](float x) { return way.code(x); });
      return;
    }
    const auto zero = static_cast<float>(way.zero);
    kernels_.quantize({.scale = way.scale, .least = -zero, .most = 255 - zero, .zero = way.zero}, values,
                      codes, count);
  }

  const KernelSet& kernels_;
  size_t from_;
  size_t to_;
  size_t scale_;
  size_t zero_;
};

}  // namespace

CodeNumbers code_numbers(const CodeSums& sums, const RunState& state) {
  const PackedCodeSums& packed = *sums.packed;
  CodeNumbers numbers;
  numbers.zero = static_cast<uint8_t>(numbers_of<int32_t>(sums.zero, state).front() - sums.low);
  const size_t count = packed.outputs.size();
  numbers.start.resize(count);
  for (size_t i = 0; i < count; ++i)
    numbers.start[i] =
        static_cast<int32_t>(-uint32_t{numbers.zero} * static_cast<uint32_t>(packed.weight_sums[i]));
  for (const RunNumber& given : sums.biases) {
    const std::vector<int32_t> bias = numbers_of<int32_t>(given, state);
    for (size_t i = 0; i < count; ++i)
      numbers.start[i] = static_cast<int32_t>(static_cast<uint32_t>(numbers.start[i]) +
                                              static_cast<uint32_t>(of_channel(bias, packed.outputs[i])));
  }
  numbers.multiplier.assign(count, 1);
  for (const RunNumber& given : sums.units) {
    const std::vector<float> unit = numbers_of<float>(given, state);
    for (size_t i = 0; i < count; ++i) numbers.multiplier[i] = of_channel(unit, packed.outputs[i]);
  }
  return numbers;
}

std::unique_ptr<EngineStep> bytes_of_integers(int32_t low, size_t flow, size_t place) {
  return std::make_unique<BytesOfIntegers>(low, flow, place);
}

std::unique_ptr<EngineStep> integers_of_bytes(size_t place, size_t flow) {
  return std::make_unique<IntegersOfBytes>(place, flow);
}

std::unique_ptr<EngineStep> integers_of_values(size_t place, size_t flow) {
  return std::make_unique<IntegersOfValues>(place, flow);
}

std::unique_ptr<EngineStep> dynamic_bytes_step(const KernelSet& kernels, size_t from, size_t to, size_t scale,
                                               size_t zero) {
  return std::make_unique<DynamicBytes>(kernels, from, to, scale, zero);
}

}  // namespace detent
