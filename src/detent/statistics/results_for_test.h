#pragma once

#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "detent/statistics/collector.h"

namespace detent {

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

inline Tensor batch(Shape shape, const std::vector<float>& values) {
  return Tensor::from(std::move(shape), values);
}

inline std::vector<Tensor> two_samples() {
  return {batch({1, 4}, {1, 2, 3, -4}), batch({1, 4}, {0.5F, -1, 2, 8})};
}

inline Collector collector_of_one(std::string_view name, const Table& options) {
  Table statistics;
  statistics[name] = options;
  return {statistics, "test"};
}

inline Table result_of(std::string_view name, const Table& options, const std::vector<Tensor>& batches) {
  Collector collector = collector_of_one(name, options);
  for (const Tensor& each : batches) collector.update(each);
  return collector.result(name);
}

inline double number(const Table& table, std::string_view key) {
  double scratch = 0;
  return *table.find(key)->number(scratch);
}

}  // namespace detent
