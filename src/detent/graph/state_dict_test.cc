#include "detent/graph/graph_parameters.h"

#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/graph/builder.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Graph two_layers() {
  GraphBuilder builder("two");
  NodeInput x = builder.input("x", {3});
  x = builder.linear("a.0", x, 3, 2);
  x = builder.batch_norm("batch_norm1d", "bn", x, 2);
  return builder.finish(x);
}

TEST(StateDict, LoadsWhatItLists) {
  Graph graph = two_layers();
  Graph other = two_layers();
  graph.node("a_0").find_parameter("weight")->tensor.values<float>()[3] = 7;
  StateDict state = state_dict(graph);
  ASSERT_EQ(state.size(), 6U);
  EXPECT_EQ(state[0].first, "a.0.weight");
  EXPECT_EQ(state[4].first, "bn.running_mean");
  state.emplace_back("bn.num_batches_tracked", Tensor(DType::kInt64, {}));
  load_state_dict(other, state, "test");
  EXPECT_EQ(other.node("a_0").find_parameter("weight")->tensor.values<float>()[3], 7);
}

TEST(StateDict, APrefixOfAllNamesThatTheNetworkLacksIsLeftOut) {
  Graph graph = two_layers();
  Graph other = two_layers();
  graph.node("a_0").find_parameter("weight")->tensor.values<float>()[3] = 7;
  StateDict state = state_dict(graph);
  for (auto& [name, tensor] : state) name.insert(0, "outer.net.");
  load_state_dict(other, state, "test");
  EXPECT_EQ(other.node("a_0").find_parameter("weight")->tensor.values<float>()[3], 7);
  state.emplace_back("outer.loss.weight", Tensor(DType::kFloat32, {2}));
  EXPECT_THAT([&] { load_state_dict(other, state, "test"); },
              ThrowsMessage<Error>(HasSubstr("not in the network: \"outer.net.a.0.weight\"")));
}

TEST(StateDict, ConvertsOtherFloats) {
  Graph graph = two_layers();
  StateDict state = state_dict(graph.deep_copy());
  state[1].second = Tensor::from<double>({2}, std::vector<double>{1.5, -2});
  Tensor half(DType::kFloat16, {2});
  const uint16_t bits[] = {0x3C00, 0xC000};  // 1, -2
  std::memcpy(half.bytes().data(), bits, sizeof(bits));
  state[2].second = half;
  load_state_dict(graph, state, "test");
  EXPECT_EQ(graph.node("a_0").find_parameter("bias")->tensor.values<float>()[0], 1.5F);
  EXPECT_EQ(graph.node("bn").find_parameter("weight")->tensor.values<float>()[1], -2.0F);
}

TEST(StateDict, NamesEveryFaultAndChangesNothing) {
  Graph graph = two_layers();
  StateDict state = state_dict(graph.deep_copy());
  state[0].second = Tensor(DType::kFloat32, {2, 4});
  state[1].first = "a.0.bais";
  state[5].second = Tensor(DType::kInt32, {2});
  state[3].second.values<float>()[0] = 99;
  try {
    load_state_dict(graph, state, "x.ckpt");
    FAIL();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_THAT(message, HasSubstr("x.ckpt does not fit the network \"two\""));
    EXPECT_THAT(message, HasSubstr("\"a.0.weight\": got shape [2, 4], expected [2, 3]"));
    EXPECT_THAT(message, HasSubstr("missing: \"a.0.bias\" [2] (the file has \"a.0.bais\")"));
    EXPECT_THAT(message, HasSubstr("not in the network: \"a.0.bais\""));
    EXPECT_THAT(message, HasSubstr("\"bn.running_var\": got int32"));
  }
  EXPECT_EQ(graph.node("bn").find_parameter("bias")->tensor.values<float>()[0], 0);
}

TEST(Convert, EveryFloat16) {
  Tensor half(DType::kFloat16, {4});
  const uint16_t bits[] = {0x0001, 0x03FF, 0x7BFF, 0xFC00};
  std::memcpy(half.bytes().data(), bits, sizeof(bits));
  const Tensor wide = to_float32(half);
  EXPECT_EQ(wide.values<float>()[0], 0x1p-24F);
  EXPECT_EQ(wide.values<float>()[1], 1023 * 0x1p-24F);
  EXPECT_EQ(wide.values<float>()[2], 65504.0F);
  EXPECT_EQ(wide.values<float>()[3], -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace detent
