#include "detent/files/json.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "detent/core/error.h"

namespace detent {
namespace {

void expect_round_trip(const Value& list, DType dtype, const Shape& shape) {
  const std::optional<Tensor> tensor = tensor_of_list(list, 1);
  ASSERT_TRUE(tensor.has_value()) << value_text(list);
  EXPECT_EQ(tensor->dtype(), dtype);
  EXPECT_EQ(tensor->shape(), shape);
  EXPECT_EQ(list_of_tensor(*tensor), list);
}

TEST(NumberLists, BecomeTensorsAndComeBack) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  expect_round_trip(List{1, 2, std::numeric_limits<int64_t>::max()}, DType::kInt64, {3});
  expect_round_trip(List{0.5, -kInfinity, -0.0, 1e-45F}, DType::kFloat32, {4});
  expect_round_trip(List{0.5, 0.1}, DType::kFloat64, {2});
  expect_round_trip(List{0.5, 1e300}, DType::kFloat64, {2});
  expect_round_trip(List{List{List{1.0}, List{2.0}}, List{List{3.0}, List{4.0}}}, DType::kFloat32, {2, 2, 1});
  const Value nan = list_of_tensor(*tensor_of_list(List{0.5, std::nan("")}, 2));
  EXPECT_TRUE(std::isnan(*nan.get_if<List>()->back().get_if<double>()));
  EXPECT_TRUE(
      std::signbit(*list_of_tensor(*tensor_of_list(List{-0.0}, 1)).get_if<List>()->front().get_if<double>()));
}

TEST(NumberLists, OtherValuesStayWhatTheyAre) {
  const List list[] = {
      {1, 2.0},         {List{1}, 2}, {List{1}, List{1, 2}}, {2, List{1}}, {},
      {List{}, List{}}, {"1", "2"},   {Value(), Value()},    {true},       {Table{{"a", 1}}}};
  for (const List& other : list) EXPECT_FALSE(tensor_of_list(other, 1).has_value()) << value_text(other);
  EXPECT_FALSE(tensor_of_list(Value(1), 1).has_value());
  EXPECT_FALSE(tensor_of_list(List{1, 2}, 3).has_value());
  EXPECT_THROW(list_of_tensor(Tensor(DType::kInt8, {1})), Error);
  EXPECT_THROW(list_of_tensor(Tensor(DType::kInt64, {})), Error);
}

}  // namespace
}  // namespace detent
