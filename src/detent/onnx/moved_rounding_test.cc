#include "detent/onnx/node_import.h"

#include <gtest/gtest.h>

#include <random>

#include "detent/formats/elements/affine.h"
#include "detent/graph/element_movement.h"

namespace detent {
namespace {

Tensor random_tensor(const Shape& shape) {
  Tensor tensor(DType::kFloat32, shape);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (float& value : tensor.values<float>()) value = normal(random);
  return tensor;
}

QuantSpec spec_of(std::vector<float> scale, Granularity granularity, int64_t axis) {
  QuantSpec spec;
  std::vector<int> zero;
  for (size_t i = 0; i < scale.size(); ++i) zero.push_back(static_cast<int>(i) - 1);
  spec.format = Affine{.width = 8, .scale = std::move(scale), .zero_point = zero};
  spec.granularity = granularity;
  spec.axis = axis;
  return spec;
}

StridedView view_of(const Shape& shape, std::vector<int64_t> strides, int64_t offset = 0) {
  return {shape, std::move(strides), offset};
}

/// The spec for the elements that the view shows, which must leave them as they are.
std::optional<QuantSpec> moved(const QuantSpec& spec, const Tensor& rounded, const StridedView& view) {
  const Tensor places = gathered(scale_places(spec, rounded.shape()), view);
  const auto result = rounding_at_places(spec, places, spec.group_size);
  if (result) {
    const Tensor elements = gathered(rounded, view);
    EXPECT_TRUE(fake_quantize(*result, elements).equals(elements)) << quant_spec_text(*result);
  }
  return result;
}

TEST(MovedRounding, ScalesOfChannelsFollowThem) {
  const QuantSpec spec = spec_of({0.01F, 0.02F, 0.04F}, Granularity::kChannel, 0);
  const Tensor rounded = fake_quantize(spec, random_tensor({3, 4}));
  EXPECT_EQ(moved(spec, rounded, view_of({4, 3}, {1, 4}))->axis, 1) << "transposed";
  EXPECT_EQ(moved(spec, rounded, view_of({1, 3, 2, 2}, {12, 4, 2, 1}))->axis, 1) << "reshaped";
  const auto backwards = moved(spec, rounded, view_of({3, 4}, {-4, 1}, 8));
  EXPECT_EQ(std::get<Affine>(backwards->format).scale, (std::vector<float>{0.04F, 0.02F, 0.01F}));
  const auto row = moved(spec, rounded, view_of({4}, {1}, 4));
  EXPECT_EQ(row->granularity, Granularity::kTensor) << "one row has one scale";
  EXPECT_EQ(std::get<Affine>(row->format).scale, std::vector{0.02F});
  EXPECT_EQ(scale_count(*moved(spec, rounded, view_of({12}, {1}))), 12U) << "each of a list has its own";
  EXPECT_FALSE(moved(spec, rounded, view_of({2, 6}, {6, 1})).has_value()) << "no spec says so";
}

TEST(MovedRounding, ScalesOfGroupsFollowThem) {
  QuantSpec spec = spec_of({0.01F, 0.02F, 0.03F, 0.04F, 0.05F, 0.06F}, Granularity::kGroup, 0);
  spec.group_size = 2;
  const Tensor rounded = fake_quantize(spec, random_tensor({3, 4}));
  const auto transposed = moved(spec, rounded, view_of({4, 3}, {1, 4}));
  EXPECT_EQ(transposed->granularity, Granularity::kGroup);
  EXPECT_EQ(transposed->axis, 1);
  EXPECT_EQ(std::get<Affine>(transposed->format).scale, std::get<Affine>(spec.format).scale);
}

TEST(MovedRounding, JoinedPartsKeepTheirScales) {
  const QuantSpec parts[] = {spec_of({0.01F}, Granularity::kTensor, 0),
                             spec_of({0.02F}, Granularity::kTensor, 0)};
  const auto joined = joined_rounding(parts);
  ASSERT_TRUE(joined.has_value());
  const Tensor places = Tensor::from<int32_t>({2, 2}, std::vector<int32_t>{0, 0, 1, 1});
  const auto rows = rounding_at_places(*joined, places, {});
  EXPECT_EQ(rows->granularity, Granularity::kChannel);
  EXPECT_EQ(std::get<Affine>(rows->format).scale, (std::vector<float>{0.01F, 0.02F}));
  QuantSpec narrow = parts[1];
  std::get<Affine>(narrow.format).narrow_range = true;
  EXPECT_FALSE(joined_rounding(std::vector{parts[0], narrow}).has_value()) << "codes of two kinds";
}

}  // namespace
}  // namespace detent
