#include "detent/graph/known_elements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/graph/builder.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::Optional;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

NodeInput list(const std::vector<int64_t>& values) { return NodeInput::of_constant(Value(values)); }

std::optional<std::vector<int64_t>> integers(const Operand& operand) {
  if (!operand.elements) return std::nullopt;
  const Tensor numbers = to_dtype(*operand.elements, DType::kInt64);
  return std::vector<int64_t>(numbers.values<int64_t>().begin(), numbers.values<int64_t>().end());
}

Operand known(const Tensor& tensor) { return {tensor.shape(), Value(), tensor.dtype(), false, tensor}; }

Operand known(const std::vector<int64_t>& values) {
  return known(Tensor::from<int64_t>({std::ssize(values)}, values));
}

Operand result_of(const std::string& op, const std::vector<Operand>& inputs, const Table& attributes = {}) {
  Node node{.name = "n", .op = op, .inputs = {}, .attributes = attributes};
  for (const AttributeSchema& attribute : find_operator(op).attributes) {
    if (!node.attributes.contains(attribute.name)) node.attributes[attribute.name] = attribute.default_value;
  }
  return infer_results(node, inputs).at(0);
}

/// As exporters write the shape of a flattened image: [N, C * H * W].
TEST(KnownElements, FollowWhatNetworksComputeOfShapes) {
  GraphBuilder builder("g");
  const NodeInput x = builder.input("x", {3, 4, 5});
  const NodeInput shape = builder.call("shape_of", {x});
  const NodeInput batch = builder.call("gather", {shape, list({0})});
  const NodeInput rest = builder.call("dynamic_slice", {shape, list({1}), list({4})});
  const NodeInput count = builder.call("prod", {rest, list({0})}, {{"keepdim", true}});
  const NodeInput sizes = builder.call("cat", {batch, count}, {{"dim", 0}});
  const NodeInput halves = builder.call("div", {sizes, NodeInput::of_constant(Value(2))});
  const Graph graph = builder.finish({builder.call("dynamic_reshape", {x, sizes}), halves});
  const ValueTypes values = infer_shapes(graph, 7);
  EXPECT_THAT(integers(values.at(sizes.node)), Optional(ElementsAre(7, 60)));
  EXPECT_THAT(integers(values.at(halves.node)), Optional(ElementsAre(3, 30))) << "integers have no fraction";
  EXPECT_EQ(values.at("dynamic_reshape").shape, (Shape{7, 60}));
  verify(graph);
}

TEST(KnownElements, OpenSizesStayOpen) {
  GraphBuilder builder("g");
  const NodeInput x = builder.input("x", {6});
  const NodeInput places = builder.call("nonzero", {x});
  const NodeInput columns = builder.call("transpose", {places}, {{"dim0", 0}, {"dim1", 1}});
  const NodeInput first = builder.call("gather", {columns, NodeInput::of_constant(Value(0))}, {{"dim", 1}});
  const Graph graph = builder.finish({columns, first});
  const ValueTypes values = infer_shapes(graph);
  EXPECT_EQ(values.at(places.node).shape, (Shape{2, kOpenSize}));
  EXPECT_EQ(values.at(columns.node).shape, (Shape{kOpenSize, 2})) << "found by trial";
  EXPECT_EQ(values.at(first.node).shape, Shape{kOpenSize});
  EXPECT_FALSE(values.at(first.node).elements.has_value());
}

/// Layers, products and broadcasts tell sizes that only a run knows.
TEST(KnownElements, OpenSizesTakeWhatFits) {
  GraphBuilder builder("g");
  const NodeInput x = builder.input("x", {6});
  const NodeInput open = builder.call("nonzero", {x});
  const NodeInput some = builder.call("transpose", {open}, {{"dim0", 0}, {"dim1", 1}});
  const NodeInput table = builder.parameter("table", {7, 5});
  const NodeInput broadcast = builder.call(
      "mul", {builder.call("cast", {open}, {{"dtype", "float32"}}), builder.parameter("factors", {2, 64})});
  const NodeInput viewed =
      builder.call("view", {open, NodeInput::of_constant(Value(3)), NodeInput::of_constant(Value(-1)),
                            NodeInput::of_constant(Value(5))});
  const NodeInput parts = builder.call("split", {some}, {{"sizes", Value(std::vector<int64_t>{1, 3})}});
  const NodeInput product =
      builder.call("matmul", {builder.call("cast", {open}, {{"dtype", "float32"}}), table});
  const NodeInput hidden = builder.linear("fc", builder.call("cast", {open}, {{"dtype", "float32"}}), 9, 4);
  const Graph graph = builder.finish({broadcast, viewed, parts, product, hidden});
  const ValueTypes values = infer_shapes(graph);
  EXPECT_EQ(values.at(broadcast.node).shape, (Shape{2, 64}));
  EXPECT_EQ(values.at(viewed.node).shape, (Shape{3, kOpenSize, 5}));
  EXPECT_EQ(values.at(value_name(parts.node, 1)).shape, (Shape{3, 2}));
  EXPECT_EQ(values.at(product.node).shape, (Shape{2, 5}));
  EXPECT_EQ(values.at(hidden.node).shape, (Shape{2, 4}));
}

TEST(KnownElements, NothingIsLeftOfNothing) {
  using Ints = std::vector<int64_t>;
  const Table first_two = {{"dims", Value(Ints{0})}, {"starts", Value(Ints{0})}, {"ends", Value(Ints{2})}};
  EXPECT_EQ(result_of("slice", {Operand{{0, 3}, Value()}}, first_two).shape, (Shape{0, 3}));
  EXPECT_EQ(result_of("slice", {Operand{{5, 3}, Value()}}, first_two).shape, (Shape{2, 3}));
}

TEST(KnownElements, UnknownAxesAreThoseOfOnes) {
  const auto axes = [](int64_t count) { return Operand{{count}, Value(), DType::kInt64}; };
  EXPECT_EQ(result_of("squeeze", {Operand{{5, 1}, Value()}, axes(1)}).shape, Shape{kOpenSize});
  EXPECT_EQ(result_of("squeeze", {Operand{{1, 1}, Value()}, axes(2)}).shape, Shape{});
  EXPECT_THROW(result_of("squeeze", {Operand{{5, 1}, Value()}, axes(2)}), Error);
}

TEST(KnownElements, ListsOfDimensionsAreShort) {
  const Operand long_list{{int64_t{1} << 20}, Value(), DType::kInt64};
  for (const char* op : {"unsqueeze", "squeeze", "dynamic_reshape", "dynamic_expand", "tile"})
    EXPECT_THROW(result_of(op, {Operand{{5, 1}, Value()}, long_list}), Error) << op;
}

TEST(KnownElements, PartsOfAMatrixFollowPythonsRule) {
  const Operand matrix = known(Tensor::from<int64_t>({3, 2}, std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(integers(result_of("dynamic_slice",
                                 {matrix, known({-1}), known({kLeast + 1}), known({0}), known({-1})})),
              Optional(ElementsAre(5, 6, 3, 4, 1, 2)));
  EXPECT_THAT(integers(result_of("dynamic_slice",
                                 {matrix, known({0, 1}), known({3, 2}), known({0, 1}), known({2, 1})})),
              Optional(ElementsAre(2, 6)));
  EXPECT_THAT(integers(result_of("dynamic_slice", {matrix, known({3}), known({kMost})})),
              Optional(ElementsAre()));
}

TEST(KnownElements, PositionsFollowPythonsRule) {
  EXPECT_EQ(slice_count({0, 100, 1}, 5), 5);
  EXPECT_EQ(slice_count({-3, -1, 1}, 5), 2);
  EXPECT_EQ(slice_count({4, -100, -2}, 5), 3);
  EXPECT_EQ(slice_count({3, 1, 1}, 5), 0);
  EXPECT_EQ(first_position({-1, 0, -1}, 5), 4);
  EXPECT_THROW(slice_count({0, 1, 0}, 5), Error);
}

TEST(KnownElements, PositionsMayBeTheFarthestIntegers) {
  EXPECT_EQ(slice_count({1, kMost, 1}, 5), 4);
  EXPECT_EQ(slice_count({kLeast, kMost, kMost}, 5), 1);
  EXPECT_EQ(slice_count({kMost, kLeast, kLeast}, 5), 1);
  EXPECT_EQ(slice_count({kMost, kLeast, -1}, 5), 5);
  EXPECT_EQ(result_of("dynamic_slice", {known({7, 8, 9}), known({1}), known({kMost})}).shape, Shape{2});
  EXPECT_THAT(integers(result_of("dynamic_slice", {known({7, 8, 9}), known({-1}), known({kLeast}),
                                                   known(std::vector<int64_t>{0}), known({-2})})),
              Optional(ElementsAre(9, 7)));
}

/// A double holds neither 2^53 + 1 nor 2^63 - 1.
TEST(KnownElements, AreMovedAsTheyAre) {
  const Operand numbers = known({(int64_t{1} << 53) + 1, kMost, -kMost});
  const std::vector<int64_t> expected = *integers(numbers);
  EXPECT_EQ(integers(result_of("unsqueeze", {numbers, known({1})})), expected);
  EXPECT_EQ(integers(result_of("identity", {numbers})), expected);
  EXPECT_EQ(integers(result_of("gather", {numbers, known({0, -2, 2})})), expected);
  EXPECT_EQ(integers(result_of("dynamic_expand", {numbers, known({1, 3})})), expected);
  EXPECT_EQ(integers(result_of("cat", {numbers, numbers}, {{"dim", 0}}))->at(4), kMost);
  EXPECT_THAT(integers(result_of("full", {known({2})}, {{"value", kMost}, {"dtype", "int64"}})),
              Optional(ElementsAre(kMost, kMost)));
  const Operand never = known(Tensor(DType::kBool, {1}));
  EXPECT_EQ(integers(result_of("where", {never, known({0}), numbers})), expected);
}

__extension__ using Wide = __int128;

template <class T>
T wrapped(Wide value) {
  return static_cast<T>(static_cast<uint64_t>(value));
}

/// Result of an operator for two integers of any type, in integers that hold all of it.
std::optional<Wide> computed(const std::string& op, Wide a, Wide b) {
  if (op == "add") return a + b;
  if (op == "sub") return a - b;
  if (op == "mul") return a * b;
  if (op == "minimum") return std::min(a, b);
  if (op == "maximum") return std::max(a, b);
  if (b == 0) return std::nullopt;
  if (op == "div") return a / b;
  if (op == "fmod") return a % b;
  return (a % b + b) % b;
}

template <class T>
void expect_own_arithmetic(std::mt19937_64& generator) {
  constexpr T kLow = std::numeric_limits<T>::min();
  constexpr T kHigh = std::numeric_limits<T>::max();
  const std::vector<T> extremes = {
      kLow,  static_cast<T>(kLow + 1), static_cast<T>(-1), 0, 1, 2, static_cast<T>(kHigh - 1), kHigh, T(7),
      T(100)};
  const auto draw = [&] {
    return generator() % 2 == 0 ? extremes[generator() % extremes.size()] : static_cast<T>(generator());
  };
  for (const char* op : {"add", "sub", "mul", "div", "fmod", "remainder", "minimum", "maximum"}) {
    for (int round = 0; round < 200; ++round) {
      const T a = draw();
      const T b = draw();
      const auto one = [](T value) { return known(Tensor::from<T>({1}, std::vector{value})); };
      const auto found = integers(result_of(op, {one(a), one(b)}));
      const auto expected = computed(op, a, b);
      ASSERT_EQ(found.has_value(), expected.has_value()) << op << " " << +a << " " << +b;
      if (expected) {
        ASSERT_EQ(found->front(), int64_t{wrapped<T>(*expected)}) << op << " " << +a << " " << +b;
      }
      ASSERT_EQ(integers(result_of("lt", {one(a), one(b)}))->front(), a < b ? 1 : 0);
      ASSERT_EQ(integers(result_of("neg", {one(a)}))->front(), static_cast<int64_t>(wrapped<T>(-Wide(a))));
    }
  }
}

TEST(KnownElements, IntegersWrapInTheirOwnType) {
  std::mt19937_64 generator(1);
  expect_own_arithmetic<int8_t>(generator);
  expect_own_arithmetic<uint8_t>(generator);
  expect_own_arithmetic<int16_t>(generator);
  expect_own_arithmetic<int32_t>(generator);
  expect_own_arithmetic<int64_t>(generator);
}

TEST(KnownElements, PowersHaveTheTypeOfTheBase) {
  const Operand base = known(Tensor::from<int32_t>({3}, std::vector<int32_t>{4, 9, 16}));
  const Operand root = known(Tensor::from<float>({1}, std::vector{0.5F}));
  EXPECT_THAT(integers(result_of("pow", {base, root})), Optional(ElementsAre(2, 3, 4)));
  EXPECT_THAT(integers(result_of("pow", {known({2, -3}), known({3})})), Optional(ElementsAre(8, -27)));
  EXPECT_THAT(integers(result_of("pow", {known({3}), known({40})})),
              Optional(ElementsAre(-6289078614652622815)))
      << "3^40 modulo 2^64";
}

TEST(KnownElements, RangesAreOfTheirOwnType) {
  const auto range = [](int64_t start, int64_t limit, int64_t step) {
    const auto number = [](int64_t value) { return Operand{{1}, Value(value)}; };
    return integers(result_of("range", {number(start), number(limit), number(step)}));
  };
  EXPECT_THAT(range(kMost - 2, kMost, 1), Optional(ElementsAre(kMost - 2, kMost - 1)));
  EXPECT_THAT(range(kLeast, kMost, kMost), Optional(ElementsAre(kLeast, -1, kMost - 1)));
  EXPECT_THAT(range(kMost, kLeast, kLeast), Optional(ElementsAre(kMost, -1)));
  EXPECT_THAT(range(5, 5, -1), Optional(ElementsAre()));
  EXPECT_THAT(range(3, 0, -2), Optional(ElementsAre(3, 1)));
  EXPECT_THROW(range(kLeast, kMost, 1), Error);
  EXPECT_THROW(range(0, 1, 0), Error);
}

/// As a cast in the network rounds, so one of a constant does.
TEST(KnownElements, CastsRound) {
  const Operand third = known(Tensor::from<float>({1}, std::vector{1.0F / 3}));
  const Operand half = result_of("cast", {third}, {{"dtype", "float16"}});
  const Operand back = result_of("cast", {half}, {{"dtype", "float32"}});
  EXPECT_EQ(back.elements->values<float>()[0], 0.333251953125F);
  const Operand negative = known(Tensor::from<float>({2}, std::vector{-1.75F, 300.0F}));
  EXPECT_THAT(integers(result_of("cast", {negative}, {{"dtype", "int8"}})), Optional(ElementsAre(-1, 44)));
}

/// A node whose constants a quantizer rounds does not compute with the values they hold.
TEST(KnownElements, RoundedValuesAreNotKnown) {
  const Operand x = known(Tensor::from<float>({1}, std::vector{0.3F}));
  Node node{.name = "n", .op = "identity", .inputs = {}};
  EXPECT_TRUE(infer_results(node, std::vector{x}).at(0).elements.has_value());
  node.quantization["data_out_0"] = QuantizerRef(parse_quant_spec_text("affine:scale=0.25,width=8"));
  EXPECT_FALSE(infer_results(node, std::vector{x}).at(0).elements.has_value());
}

}  // namespace
}  // namespace detent
