#pragma once

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <vector>

#include "detent/core/tensor.h"

namespace detent {

constexpr auto kOnnxInt64 = onnx::TensorProto::INT64;
constexpr auto kOnnxBool = onnx::TensorProto::BOOL;

/// Numbers between -1 and 1 that look random.
inline Tensor varied_numbers(const Shape& shape, int seed) {
  Tensor tensor(DType::kFloat32, shape);
  int state = seed;
  for (float& value : tensor.values<float>()) {
    state = (state * 421 + 1663) % 7875;
    value = static_cast<float>(state) / 3937.5F - 1;
  }
  return tensor;
}

/// Elements of float32, computed in double for the test.
inline void expect_near(const Tensor& actual, const std::vector<double>& expected) {
  const auto values = actual.values<float>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(static_cast<double>(values[i]), expected[i], 1e-5) << i;
}

}  // namespace detent
