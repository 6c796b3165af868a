#include "detent/checkpoints/gguf/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "detent/checkpoints/gguf/gguf_for_test.h"
#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kHuge = uint64_t{1} << 40;

GgufFile gguf_of(const std::string& bytes) {
  const TemporaryPath path("model.gguf");
  path.overwrite(bytes);
  return read_gguf(path.get());
}

std::string refusal_of(const std::string& bytes) {
  return error_of([&] { gguf_of(bytes); });
}

GgufBytes one_tensor() {
  return GgufBytes().text("general.architecture", "llama").floats("w", {2, 3}, {1, 2, 3, 4, 5, 6});
}

TEST(GgufFile, HasTensorsRowsFirst) {
  for (const uint32_t version : {2U, 3U}) {
    const GgufFile file = gguf_of(one_tensor().bytes(version));
    EXPECT_EQ(file.version, version);
    EXPECT_EQ(file.alignment, 32U);
    ASSERT_NE(file.find("w"), nullptr);
    EXPECT_EQ(file.find("v"), nullptr);
    EXPECT_STREQ(file.find("w")->format->name, "F32");
    EXPECT_TRUE(gguf_elements(*file.find("w")).equals(Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6})));
  }
}

TEST(GgufFile, WithoutTensorsHasTheSameMetadata) {
  const GgufFile file = gguf_of(one_tensor().text("tokenizer.chat_template", "{{ x }}").bytes());
  const GgufFile header = gguf_of(gguf_without_tensors(file));
  EXPECT_TRUE(header.tensors.empty());
  EXPECT_EQ(header.version, file.version);
  ASSERT_EQ(header.metadata.entries().size(), file.metadata.entries().size());
  EXPECT_EQ(header.metadata.text("general.architecture"), "llama");
  EXPECT_EQ(header.metadata.text("tokenizer.chat_template"), "{{ x }}");
  EXPECT_TRUE(std::ranges::equal(header.metadata_bytes, file.metadata_bytes));
}

TEST(GgufFile, TensorsOutliveIt) {
  Tensor tensor;
  {
    const GgufFile file = gguf_of(one_tensor().bytes());
    tensor = gguf_elements(*file.find("w"));
  }
  EXPECT_EQ(tensor.values<float>()[5], 6);
}

/// One value of every type, read by the functions that fit it and refused by the others.
TEST(GgufFile, ReadsMetadataOfEveryType) {
  using B = GgufBytes;
  GgufBytes bytes;
  bytes.entry("u8", GgufType::kUInt8, B::number_bytes<uint8_t>(200));
  bytes.entry("i8", GgufType::kInt8, B::number_bytes<int8_t>(-3));
  bytes.entry("u16", GgufType::kUInt16, B::number_bytes<uint16_t>(60000));
  bytes.entry("i16", GgufType::kInt16, B::number_bytes<int16_t>(-300));
  bytes.entry("u32", GgufType::kUInt32, B::number_bytes<uint32_t>(4'000'000'000));
  bytes.entry("i32", GgufType::kInt32, B::number_bytes<int32_t>(-70000));
  bytes.entry("u64", GgufType::kUInt64, B::number_bytes(std::numeric_limits<uint64_t>::max()));
  bytes.entry("i64", GgufType::kInt64, B::number_bytes<int64_t>(-5'000'000'000));
  bytes.entry("f32", GgufType::kFloat32, B::number_bytes(0.5F));
  bytes.entry("f64", GgufType::kFloat64, B::number_bytes(0.1));
  bytes.entry("yes", GgufType::kBool, B::number_bytes<uint8_t>(1));
  bytes.real("eps", 1e-5F);
  bytes.text("name", "ein Netz");
  bytes.entry("words", GgufType::kArray, B::texts_bytes({"a", "", "ccc"}));
  bytes.entry(
      "ids", GgufType::kArray,
      B::array_bytes(GgufType::kInt16, 2, B::number_bytes<int16_t>(-1) + B::number_bytes<int16_t>(7)));
  bytes.entry("scores", GgufType::kArray, B::array_bytes(GgufType::kFloat32, 1, B::number_bytes(1.5F)));
  const std::string inner = B::array_bytes(GgufType::kUInt8, 1, "x");
  bytes.entry("nested", GgufType::kArray, B::array_bytes(GgufType::kArray, 2, inner + inner));
  const TemporaryPath path("types.gguf");
  path.overwrite(bytes.bytes());
  const GgufFile file = read_gguf(path.get());
  const GgufMetadata& metadata = file.metadata;
  EXPECT_EQ(metadata.integer("u8"), 200);
  EXPECT_EQ(metadata.integer("i8"), -3);
  EXPECT_EQ(metadata.integer("u16"), 60000);
  EXPECT_EQ(metadata.integer("i16"), -300);
  EXPECT_EQ(metadata.integer("u32"), 4'000'000'000);
  EXPECT_EQ(metadata.integer("i32"), -70000);
  EXPECT_EQ(metadata.integer("i64"), -5'000'000'000);
  EXPECT_EQ(metadata.integer("absent", 9), 9);
  EXPECT_EQ(metadata.number("f32"), 0.5);
  EXPECT_EQ(metadata.number("f64"), 0.1);
  EXPECT_EQ(metadata.number("i8"), -3);
  EXPECT_TRUE(metadata.flag("yes", false));
  EXPECT_EQ(metadata.text("name"), "ein Netz");
  EXPECT_THAT(metadata.texts("words"), ElementsAre("a", "", "ccc"));
  EXPECT_THAT(metadata.integers("ids"), ElementsAre(-1, 7));
  EXPECT_THAT(metadata.numbers("scores"), ElementsAre(1.5));
  EXPECT_EQ(gguf_value(*metadata.find("nested"), 8), Value("2 array"));
  EXPECT_EQ(gguf_value(*metadata.find("words"), 2), Value("3 string"));
  EXPECT_EQ(gguf_value(*metadata.find("u64"), 2), Value("18446744073709551615"));
  EXPECT_EQ(gguf_value(*metadata.find("eps"), 2), Value(1e-5));
  const auto refusal = [&](auto&& read) { return error_of([&] { read(metadata); }); };
  EXPECT_THAT(refusal([](const GgufMetadata& m) { m.integer("f32"); }),
              AllOf(HasSubstr("types.gguf: f32 is 0.5 (float32), expected an integer")));
  EXPECT_THAT(refusal([](const GgufMetadata& m) { m.integer("u64"); }), HasSubstr("expected an integer"));
  EXPECT_THAT(refusal([](const GgufMetadata& m) { m.text("words"); }),
              HasSubstr("words is an array of 3 string, expected a string"));
  EXPECT_THAT(refusal([](const GgufMetadata& m) { m.texts("ids"); }),
              HasSubstr("expected an array of strings"));
  EXPECT_THAT(refusal([](const GgufMetadata& m) { m.integers("scores"); }),
              HasSubstr("an array of integers"));
  EXPECT_THAT(refusal([](const GgufMetadata& m) { m.numbers("words"); }), HasSubstr("an array of numbers"));
  EXPECT_THAT(refusal([](const GgufMetadata& m) { m.text("absent"); }),
              HasSubstr("the metadata lack absent"));
}

TEST(GgufFile, RefusesOtherFilesAndVersions) {
  EXPECT_THAT(refusal_of("GGU"), HasSubstr("not a GGUF file"));
  EXPECT_THAT(refusal_of(one_tensor().bytes(1)), HasSubstr("version 1 of GGUF, expected 2 or 3"));
  EXPECT_THAT(refusal_of(one_tensor().bytes(0x03000000)), HasSubstr("big endian"));
}

TEST(GgufFile, RefusesCountsThatItCannotHold) {
  EXPECT_THAT(refusal_of(one_tensor().bytes_with(3, kHuge, 1)),
              HasSubstr("1099511627776 entries of tensors"));
  EXPECT_THAT(refusal_of(one_tensor().bytes_with(3, 1, kHuge)), HasSubstr("entries of metadata"));
  using B = GgufBytes;
  for (const GgufType type : {GgufType::kUInt8, GgufType::kFloat64, GgufType::kString, GgufType::kArray}) {
    const std::string lie = GgufBytes().entry("a", GgufType::kArray, B::array_bytes(type, kHuge, "")).bytes();
    EXPECT_THAT(refusal_of(lie), HasSubstr("a says it has 1099511627776 elements"));
  }
  const std::string text = GgufBytes().entry("a", GgufType::kString, B::number_bytes(kHuge)).bytes();
  EXPECT_THAT(refusal_of(text), HasSubstr("a string of 1099511627776 bytes"));
}

TEST(GgufFile, RefusesMetadataThatAreDamaged) {
  using B = GgufBytes;
  EXPECT_THAT(refusal_of(GgufBytes().integer("a", 1).integer("a", 2).bytes()),
              HasSubstr("\"a\" occurs twice"));
  EXPECT_THAT(refusal_of(GgufBytes().entry("a", static_cast<GgufType>(13), "").bytes()),
              HasSubstr("a has a value of the type 13"));
  EXPECT_THAT(refusal_of(GgufBytes().integer("general.alignment", 48).bytes()), HasSubstr("a power of two"));
  std::string nested = B::array_bytes(GgufType::kUInt8, 0, "");
  for (int i = 0; i < 5; ++i) nested = B::array_bytes(GgufType::kArray, 1, nested);
  EXPECT_THAT(refusal_of(GgufBytes().entry("a", GgufType::kArray, nested).bytes()),
              HasSubstr("more than 4 deep"));
}

TEST(GgufFile, RefusesTensorsThatAreDamaged) {
  const std::string data(32, '\0');
  const auto with = [&](uint32_t format, const Shape& shape, uint64_t offset = 0) {
    return refusal_of(GgufBytes().tensor_at("w", format, shape, offset, data).bytes());
  };
  EXPECT_THAT(with(4, {8}), HasSubstr("stored in the format 4, which is none of F32, F16"));
  EXPECT_THAT(with(2, {16}), HasSubstr("rows of 16 elements, Q4_0 has blocks of 32"));
  EXPECT_THAT(with(0, {1, 1, 1, 1, 1, 1, 1, 1, 1}), HasSubstr("9 dimensions"));
  EXPECT_THAT(with(0, {-1}), HasSubstr("which no file can hold"));
  EXPECT_THAT(with(0, {int64_t{1} << 40, int64_t{1} << 40}), HasSubstr("which no file can hold"));
  EXPECT_THAT(with(0, {int64_t{1} << 40}), HasSubstr("the file has"));
  EXPECT_THAT(with(0, {8}, 8), HasSubstr("expected a multiple of 32"));
  EXPECT_THAT(with(0, {8}, 64), HasSubstr("is the file cut off?"));
  EXPECT_THAT(refusal_of(GgufBytes().floats("w", {1}, {1}).floats("w", {1}, {1}).bytes()),
              HasSubstr("occurs twice"));
  EXPECT_THAT(refusal_of(GgufBytes().floats("v", {1}, {1}).tensor_at("w", 0, {1}, 0, data).bytes()),
              HasSubstr("overlap"));
}

/// Every file that is cut off somewhere is refused, and none crashes.
TEST(GgufFile, RefusesWhatIsCutOff) {
  const std::string whole = one_tensor().integer("n", 5).bytes();
  const size_t last = whole.size() - 32 + 6 * sizeof(float);
  for (size_t size = 0; size < last; ++size) EXPECT_NE(refusal_of(whole.substr(0, size)), "") << size;
}

/// As the vocabulary of Gemma has them.
TEST(GgufFile, ReadsManyStringsFast) {
  std::vector<std::string> words(256'000);
  for (size_t i = 0; i < words.size(); ++i) words[i] = std::to_string(i);
  GgufBytes bytes;
  bytes.entry("tokenizer.ggml.tokens", GgufType::kArray, GgufBytes::texts_bytes(words));
  const TemporaryPath path("words.gguf");
  path.overwrite(bytes.bytes());
  const auto begin = std::chrono::steady_clock::now();
  const GgufFile file = read_gguf(path.get());
  const auto texts = file.metadata.texts("tokenizer.ggml.tokens");
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(texts.size(), words.size());
  EXPECT_EQ(texts.back(), words.back());
  EXPECT_LT(taken.count(), 0.5);
}

}  // namespace
}  // namespace detent
