#include "detent/checkpoints/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "detent/core/error.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

using namespace std::string_literals;

Pickle unpickled(const std::string& bytes) {
  static std::deque<std::string> kept;  // values view the bytes they were read from
  return unpickle(std::as_bytes(std::span(kept.emplace_back(bytes))), "p.pkl", size_t{1} << 30);
}

template <class T>
const T& get(const PickleValue* value) {
  return std::get<T>(value->storage);
}

TEST(Pickle, ReadsWhatItWrites) {
  PickleWriter writer;
  writer.value(Table{{"i", -3},
                     {"l", int64_t{1} << 40},
                     {"min", std::numeric_limits<int64_t>::min()},
                     {"f", 2.5},
                     {"t", "é"},
                     {"b", true},
                     {"n", Value()},
                     {"x", List{1, Table{}}}});
  const std::string text = writer.finish();
  const Pickle pickle = unpickled(text);
  EXPECT_EQ(pickle.byte_size, text.size());
  const auto& entries = get<PickleDict>(pickle.root).entries;
  ASSERT_EQ(entries.size(), 8U);
  EXPECT_EQ(get<std::string_view>(entries[0].first), "i");
  EXPECT_EQ(get<int64_t>(entries[0].second), -3);
  EXPECT_EQ(get<int64_t>(entries[1].second), int64_t{1} << 40);
  EXPECT_EQ(get<int64_t>(entries[2].second), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(get<double>(entries[3].second), 2.5);
  EXPECT_EQ(get<std::string_view>(entries[4].second), "é");
  EXPECT_TRUE(get<bool>(entries[5].second));
  EXPECT_EQ(pickle_kind(*entries[6].second), "None");
  EXPECT_EQ(get<PickleList>(entries[7].second).items.size(), 2U);
}

TEST(Pickle, ReadsProtocols) {
  // (1, -2, 2.5, "a", [True], {"k": None}) by Python's pickle, protocols 0 and 4.
  const Pickle old = unpickled("(I1\nI-2\nF2.5\nVa\np0\n(lp1\nI01\na(dp2\nVk\np3\nNstp4\n.");
  const auto& items = get<PickleTuple>(old.root).items;
  ASSERT_EQ(items.size(), 6U);
  EXPECT_EQ(get<double>(items[2]), 2.5);
  EXPECT_TRUE(get<bool>(get<PickleList>(items[4]).items[0]));
  EXPECT_EQ(get<std::string_view>(get<PickleDict>(items[5]).entries[0].first), "k");
  const Pickle framed =
      unpickled("\x80\x04\x95\x12\0\0\0\0\0\0\0\x8c\x01m\x94\x8c\x01k\x94\x93\x94)\x81\x94}\x94h\x00Nsb."s);
  const auto& object = get<PickleObject>(framed.root);
  EXPECT_EQ(pickle_kind(*framed.root), "an object of m.k");
  EXPECT_EQ(get<std::string_view>(get<PickleDict>(object.state()).entries[0].first), "m");
}

TEST(Pickle, KeepsCallsInert) {
  const Pickle pickle = unpickled("cos\nsystem\n(Vreboot\ntR.");
  EXPECT_EQ(pickle_kind(*pickle.root), "an object of os.system");
  EXPECT_EQ(pickle_kind(*unpickled("\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x01."s).root),
            "an object of builtins.int");
}

TEST(Pickle, SurvivesCyclesAndDepth) {
  const Pickle cycle = unpickled("]q\0h\0a."s);
  EXPECT_EQ(get<PickleList>(cycle.root).items[0], cycle.root);
  std::string deep = "]";
  for (int i = 0; i < 1'000'000; ++i) deep += ']';
  deep += std::string(1'000'000, 'a') + ".";
  EXPECT_EQ(get<PickleList>(unpickled(deep).root).items.size(), 1U);
}

TEST(Pickle, RefusesDamage) {
  const auto message = [](const std::string& bytes, const char* expected) {
    EXPECT_THAT([&] { unpickled(bytes); }, ThrowsMessage<Error>(HasSubstr(expected))) << bytes;
  };
  message("", "p.pkl: cut off");
  message("\x80\x02", "cut off");
  message(".", "the stack is empty");
  message("N0.", "the stack is empty");
  message("\x80\x06N.", "protocol 6");
  message("N(a.", "the stack is empty");
  message("Na.", "the stack is empty");
  message("NNa.", "no list");
  message("NNNs.", "no dict");
  message("}(Nu.", "without a value");
  message("t.", "no mark");
  message("h\x05.", "nothing remembered as 5");
  message("Nq\x07h\x05.", "nothing remembered as 5");
  message("Nr\xff\xff\xff\xff.", "a value remembered as 4294967295");
  message("\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "bytes of text");
  message("X\xff\xff\xff\xff.", "cut off");
  message("\x97.", "opcode 0x97");
  message("Va\\u1234\n.", "escapes");
  message("I1x\n.", "bad number");
  message("NNb.", "no object");
  message(std::string(5'000'000, 'N') + ".", "more than 4194304 values");
  EXPECT_THAT(
      [] { unpickle(std::as_bytes(std::span("NNNN.", 5)), "p.pkl", 200); },
      ThrowsMessage<Error>(HasSubstr("p.pkl: bad pickle near byte 3: its values take more than 200 bytes")));
}

}  // namespace
}  // namespace detent
