#include "detent/files/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "detent/core/error.h"
#include "detent/core/sanitizers_for_test.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

class Safetensors : public testing::Test {
 protected:
  void write_raw(const std::string& header, const std::string& data) {
    const uint64_t length = header.size();
    std::string text(sizeof(length), '\0');
    std::memcpy(text.data(), &length, sizeof(length));
    write_file(path_, text + header + data);
  }
  void expect_error(const std::string& header, const std::string& data, const std::string& message) {
    write_raw(header, data);
    EXPECT_THAT([&] { read_safetensors(path_); },
                ThrowsMessage<Error>(AllOf(HasSubstr(path_.string()), HasSubstr(message))))
        << header;
  }

  TemporaryPath file_{"model.safetensors"};
  const std::filesystem::path& path_ = file_.get();
};

Tensor tensor_of(DType dtype, Shape shape) {
  Tensor tensor(dtype, std::move(shape));
  for (size_t i = 0; i < tensor.byte_size(); ++i) tensor.bytes()[i] = static_cast<std::byte>(i % 2);
  return tensor;
}

TEST_F(Safetensors, RoundTripsEveryDtypeAligned) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (int i = 0; i < 12; ++i) {
    const auto dtype = static_cast<DType>(i);
    tensors.emplace_back("t\"" + std::string(dtype_name(dtype)), tensor_of(dtype, {i, 3}));
  }
  tensors.emplace_back("scalar", Tensor::from<float>({}, std::vector<float>{2.5F}));
  write_safetensors(path_, tensors, {{"format", "pt"}, {"é", ""}});
  const SafetensorsFile file = read_safetensors(path_);
  EXPECT_THAT(file.metadata, UnorderedElementsAre(Pair("format", "pt"), Pair("é", "")));
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = file.tensors[i];
    EXPECT_EQ(name, tensors[i].first);
    EXPECT_TRUE(tensor.equals(tensors[i].second)) << name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes().data()) % dtype_size(tensor.dtype()), 0U) << name;
  }
}

TEST_F(Safetensors, TensorsOutliveTheFile) {
  write_safetensors(path_,
                    std::vector<std::pair<std::string, Tensor>>{{"a", tensor_of(DType::kInt8, {4096})}});
  const Tensor tensor = read_safetensors(path_).tensors[0].second;
  std::filesystem::remove(path_);
  EXPECT_TRUE(tensor.equals(tensor_of(DType::kInt8, {4096})));
}

TEST_F(Safetensors, CopiesMisalignedData) {
  write_raw(R"({"b":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},)"
            R"("a":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
            std::string("\x01\x00\x00\x80\x3f", 5));
  EXPECT_EQ(read_safetensors(path_).tensors[1].second.values<float>()[0], 1.0F);
}

TEST_F(Safetensors, ExponentsAreBytes) {
  write_raw(R"({"s":{"dtype":"F8_E8M0","shape":[3],"data_offsets":[0,3]}})", "\x7f\x80\x01");
  const SafetensorsFile file = read_safetensors(path_);
  ASSERT_EQ(file.tensors.size(), 1U);
  EXPECT_TRUE(file.tensors[0].second.equals(Tensor::from<uint8_t>({3}, std::vector<uint8_t>{127, 128, 1})));
}

TEST_F(Safetensors, AcceptsAnEmptyHeader) {
  write_raw("{}", "");
  EXPECT_TRUE(read_safetensors(path_).tensors.empty());
}

TEST_F(Safetensors, RejectsBadHeaders) {
  const auto entry = [](const char* dtype, const char* shape, const char* offsets) {
    return fmt::format(R"("w":{{"dtype":"{}","shape":{},"data_offsets":{}}})", dtype, shape, offsets);
  };
  const std::string good = entry("U8", "[2]", "[0,2]");
  expect_error("{" + good + "," + good + "}", "ab", "\"w\" occurs twice");
  expect_error("{" + good + "}", "abc", "1 bytes follow");
  expect_error("{" + good + "}", "a", "the file has 1 bytes of data");
  expect_error("{" + good + R"(,"v":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", "abc", "overlapping");
  expect_error("{" + entry("U8", "[2]", "[1,3]") + "}", "abc", "leaving a hole");
  expect_error("{" + entry("U8", "[3]", "[0,2]") + "}", "ab", "tensor \"w\" has 2 bytes");
  expect_error("{" + entry("U8", "[-2]", "[0,2]") + "}", "ab", "expected a list of sizes");
  expect_error("{" + entry("U8", "2", "[0,2]") + "}", "ab", "\"shape\"");
  expect_error("{" + entry("U8", "[4294967296,4294967296,4294967296]", "[0,2]") + "}", "ab", "too many");
  expect_error("{" + entry("U8", "[2]", "[2,0]") + "}", "ab", "data_offsets [2,0]");
  expect_error("{" + entry("BOOL", "[2]", "[0,2]") + "}", "ab", "tensor \"w\" is boolean");
  expect_error("{" + entry("C64", "[1]", "[0,8]") + "}", "abcdefgh", "tensor \"w\" has dtype \"C64\"");
  expect_error(R"({"w":{"dtype":"U8","dtype":"I8"}})", "", "\"dtype\" occurs twice");
  expect_error(R"({"w":{"dtype":"U8"}})", "", "no \"shape\"");
  expect_error(R"({"__metadata__":{"a":1}})", "", "not a string");
  expect_error("[1]", "", "not a JSON object");
  expect_error("{", "", "not JSON");
  expect_error(std::string(100000, '['), "", "nested too deep");
  write_file(path_, "\xff\xff\xff\xff\xff\xff\xff\xff");
  EXPECT_THAT([&] { read_safetensors(path_); }, ThrowsMessage<Error>(HasSubstr("not a safetensors file")));
}

TEST_F(Safetensors, ReadsManyTensorsInLinearTime) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (int i = 0; i < fewer_under_sanitizers(100'000); ++i)
    tensors.emplace_back("tensor" + std::to_string(i), tensor_of(DType::kInt8, {1}));
  write_safetensors(path_, tensors);  // minutes, if it took quadratic time
  const SafetensorsFile file = read_safetensors(path_);
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) ASSERT_EQ(file.tensors[i].first, tensors[i].first);
}

TEST_F(Safetensors, ReadsManyTensorsAfterMuchMetadataInLinearTime) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  std::map<std::string, std::string> metadata;
  for (int i = 0; i < fewer_under_sanitizers(100'000); ++i) {
    tensors.emplace_back("tensor" + std::to_string(i), tensor_of(DType::kInt8, {1}));
    metadata["key" + std::to_string(i)] = "value";
  }
  write_safetensors(path_, tensors, metadata);
  EXPECT_EQ(read_safetensors(path_).metadata.size(), metadata.size());
}

TEST_F(Safetensors, RefusesNamesItCannotWrite) {
  const auto write = [&](const std::vector<std::string>& names) {
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const std::string& name : names) tensors.emplace_back(name, Tensor());
    write_safetensors(path_, tensors);
  };
  EXPECT_THAT([&] { write({"a", "a"}); }, ThrowsMessage<Error>(HasSubstr("\"a\" is taken")));
  EXPECT_THROW(write({"__metadata__"}), Error);
  EXPECT_THROW(write({"\xff"}), Error);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Safetensors, EveryFlippedBitIsFound) {
  const std::vector<std::pair<std::string, Tensor>> tensors = {{"a", tensor_of(DType::kFloat32, {2, 3})},
                                                               {"b", tensor_of(DType::kInt8, {5})}};
  write_safetensors(path_, tensors, {{"epoch", "12"}});
  const std::string original = read_file(path_);
  for (size_t bit = 0; bit < 8 * original.size(); ++bit) {
    std::string text = original;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
    file_.overwrite(text);
    try {
      // One that hits the name of the checksums leaves the rest as it was.
      const SafetensorsFile file = read_safetensors(path_);
      EXPECT_EQ(file.metadata.at("epoch"), "12");
      for (size_t i = 0; i < tensors.size(); ++i) {
        EXPECT_EQ(file.tensors[i].first, tensors[i].first);
        EXPECT_TRUE(file.tensors[i].second.equals(tensors[i].second)) << bit;
      }
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(path_.string()));
    }
  }
}

TEST_F(Safetensors, SaysWhatIsDamagedWhenItIsAskedTo) {
  write_safetensors(path_,
                    std::vector<std::pair<std::string, Tensor>>{{"a", tensor_of(DType::kFloat32, {2, 3})},
                                                                {"b", tensor_of(DType::kInt8, {5})}});
  std::string text = read_file(path_);
  text.back() = static_cast<char>(text.back() ^ 4);
  file_.overwrite(text);
  EXPECT_THAT(
      [&] { read_safetensors(path_); },
      ThrowsMessage<Error>(AllOf(HasSubstr(path_.string() + ": damaged"), HasSubstr("tensor \"b\""))));
  const SafetensorsFile file = read_safetensors(path_, TensorCheck::kLater);
  ASSERT_EQ(file.checksums.size(), 2U);
  check_tensor(file.tensors[0].second, file.checksums[0], "x", "a");
  EXPECT_THROW(check_tensor(file.tensors[1].second, file.checksums[1], "x", "b"), Error);
}

TEST_F(Safetensors, FilesWithoutChecksumsAreRead) {
  write_raw(R"({"__metadata__":{"epoch":"12"},"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "ab");
  EXPECT_TRUE(read_safetensors(path_).checksums.empty());
  EXPECT_THAT(read_safetensors(path_).metadata, UnorderedElementsAre(Pair("epoch", "12")));
  write_raw(R"({"__metadata__":{"detent.crc32":"0123"},"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
            "ab");
  EXPECT_THAT([&] { read_safetensors(path_); }, ThrowsMessage<Error>(HasSubstr("damaged")));
}

TEST_F(Safetensors, SurvivesMutations) {
  write_safetensors(path_,
                    std::vector<std::pair<std::string, Tensor>>{{"a", tensor_of(DType::kFloat32, {2, 3})},
                                                                {"b", tensor_of(DType::kInt8, {5})}});
  const std::string original = read_file(path_);
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    std::string text = original.substr(0, i % 4 == 0 ? random() % original.size() : original.size());
    for (unsigned j = random() % 4; j > 0 && !text.empty(); --j) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    file_.overwrite(text);
    try {
      read_safetensors(path_);
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace detent
