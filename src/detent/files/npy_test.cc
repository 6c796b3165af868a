#include "detent/files/array_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::string npy(const std::string& header, const std::string& data, char version = 1) {
  std::string text = "\x93NUMPY";
  text += version;
  text += '\0';
  text += static_cast<char>(header.size() & 0xFF);
  text += static_cast<char>(header.size() >> 8);
  if (version > 1) text += std::string(2, '\0');
  return text + header + data;
}

class Npy : public testing::Test {
 protected:
  void expect_error(const std::string& bytes, const std::string& message) {
    file_.overwrite(bytes);
    EXPECT_THAT([&] { read_npy(path_); },
                ThrowsMessage<Error>(AllOf(HasSubstr(path_.string()), HasSubstr(message))));
  }

  TemporaryPath file_{"array.npy"};
  const std::filesystem::path& path_ = file_.get();
};

TEST_F(Npy, RoundTripsEveryDtypeAndShape) {
  for (const DType dtype : {DType::kBool, DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32,
                            DType::kInt64, DType::kFloat16, DType::kFloat32, DType::kFloat64}) {
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3}, Shape{0, 4}}) {
      Tensor tensor(dtype, shape);
      for (size_t i = 0; i < tensor.byte_size(); ++i) tensor.bytes()[i] = static_cast<std::byte>(i % 2);
      write_npy(path_, tensor);
      EXPECT_TRUE(read_npy(path_).equals(tensor)) << dtype_name(dtype) << shape_text(shape);
    }
  }
  EXPECT_THROW(write_npy(path_, Tensor(DType::kBFloat16, {1})), Error);
}

TEST_F(Npy, ReadsWhatNumpyWrites) {
  const std::string data("\x00\x00\x80\x3f\x00\x00\x00\x40", 8);
  const Tensor expected = Tensor::from({2}, std::vector<float>{1.0F, 2.0F});
  for (const char version : {'\1', '\2', '\3'}) {
    file_.overwrite(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", data, version));
    EXPECT_TRUE(read_npy(path_).equals(expected));
  }
  file_.overwrite(npy("{\"shape\":(2),'fortran_order':True,'descr':'<f4'}", data));
  EXPECT_TRUE(read_npy(path_).equals(expected));
}

/// The first dimension runs fastest in the file.
TEST_F(Npy, TransposesFortranOrder) {
  const auto check = [&](const char* descr, auto element) {
    using Element = decltype(element);
    std::string data;
    std::vector<Element> expected(24);
    int next = 0;
    for (size_t k = 0; k < 4; ++k) {
      for (size_t j = 0; j < 3; ++j) {
        for (size_t i = 0; i < 2; ++i) {
          const auto value = static_cast<Element>(next++);
          data.append(reinterpret_cast<const char*>(&value), sizeof(value));
          expected[(i * 3 + j) * 4 + k] = value;
        }
      }
    }
    file_.overwrite(
        npy(fmt::format("{{'descr': '{}', 'fortran_order': True, 'shape': (2, 3, 4), }}", descr), data));
    EXPECT_TRUE(read_npy(path_).equals(Tensor::from({2, 3, 4}, expected))) << descr;
  };
  check("|i1", int8_t{});
  check("<i2", int16_t{});
  check("<f4", float{});
  check("<f8", double{});
  file_.overwrite(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 0), }", ""));
  EXPECT_TRUE(read_npy(path_).equals(Tensor(DType::kFloat32, {3, 0})));
}

TEST_F(Npy, UnsignedIntegersTakeTheNextLargerType) {
  const auto read = [&](const char* descr, const std::string& data) {
    file_.overwrite(
        npy(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (2,), }}", descr), data));
    return read_npy(path_);
  };
  EXPECT_TRUE(read("<u2", {"\x01\x00\xff\xff", 4})
                  .equals(Tensor::from<int32_t>({2}, std::vector<int32_t>{1, 65535})));
  EXPECT_TRUE(read("<u4", {"\x01\x00\x00\x00\xff\xff\xff\xff", 8})
                  .equals(Tensor::from<int64_t>({2}, std::vector<int64_t>{1, 4294967295})));
  const std::string one("\x01\x00\x00\x00\x00\x00\x00\x00", 8);
  EXPECT_TRUE(read("<u8", one + one).equals(Tensor::from<int64_t>({2}, std::vector<int64_t>{1, 1})));
  EXPECT_THAT(error_of([&] { read("<u8", one + std::string(8, '\xff')); }),
              HasSubstr("got 18446744073709551615, expected integers of at most 2^63 - 1"));
}

TEST_F(Npy, BytesInTheOtherOrderAreTurned) {
  const auto read = [&](const char* descr, const std::string& data) {
    write_file(path_,
               npy(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (2,), }}", descr), data));
    return read_npy(path_);
  };
  EXPECT_TRUE(read(">f4", std::string("\x3f\x80\x00\x00\xc0\x00\x00\x00", 8))
                  .equals(Tensor::from<float>({2}, std::vector<float>{1, -2})));
  EXPECT_TRUE(read(">i2", std::string("\x01\x02\xff\xfe", 4))
                  .equals(Tensor::from<int16_t>({2}, std::vector<int16_t>{258, -2})));
  EXPECT_TRUE(read(">u2", std::string("\xff\xff\x00\x01", 4))
                  .equals(Tensor::from<int32_t>({2}, std::vector<int32_t>{65535, 1})));
}

TEST_F(Npy, IsWrittenPieceByPiece) {
  const auto whole = Tensor::from<int16_t>({3, 2}, std::vector<int16_t>{1, 2, 3, 4, 5, 6});
  write_npy(path_, whole);
  const std::string expected = read_file(path_);
  NpyWriter writer(path_, DType::kInt16, {3, 2});
  writer.append(whole.rows(0, 1));
  EXPECT_EQ(read_file(path_), expected) << "what stood there stays until the array is complete";
  EXPECT_THROW(writer.commit(), CheckFailure);
  writer.append(whole.rows(1, 3));
  EXPECT_THROW(writer.append(whole.rows(0, 1)), CheckFailure);
  writer.commit();
  EXPECT_EQ(read_file(path_), expected);
}

TEST_F(Npy, SaysWhatIsWrong) {
  const std::string data(8, '\0');
  const auto header = [](const char* descr, const char* order, const char* shape) {
    return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", descr, order, shape);
  };
  expect_error("", "not a .npy file");
  expect_error("\x93NUMPX\x01", "not a .npy file");
  expect_error("\x93NUMPY\x04\x01", "version 4");
  expect_error("\x93NUMPY\x01\x01\x09\x01", "cut off");
  expect_error(npy(header("<c8", "False", "(1,)"), data), "dtype \"<c8\", supported are |b1");
  expect_error(npy(header("<f4", "True", "(3, 2)"), data), "8 bytes of data, shape [3, 2] of float32");
  expect_error(npy(header("<f4", "Maybe", "(2,)"), data), "neither True nor False");
  expect_error(npy(header("<f4", "False", "(-2,)"), data), "shape is no tuple");
  expect_error(npy(header("<f4", "False", "(3,)"), data), "8 bytes of data, shape [3] of float32");
  expect_error(npy(header("<f4", "False", "(1,)"), data), "needs 1 elements");
  expect_error(npy(header("<f4", "False", "(4294967296, 4294967296)"), data), "too many");
  expect_error(npy("{'descr': '<f4'}", data), "must have the keys");
  expect_error(npy("{'descr': '<f4', 'descr': '<f4'}", data), "occurs twice");
  expect_error(npy("{'descr': '<f4", data), "without an end");
  expect_error(npy(header("|b1", "False", "(8,)"), std::string(8, '\2')), "other than 0 and 1");
  expect_error(std::string("\x93NUMPY\x02\x00\xff\xff\xff\x7f", 12), "a header of 2147483647 bytes");
}

TEST_F(Npy, SurvivesMutations) {
  write_npy(path_, Tensor(DType::kFloat32, {2, 3}));
  const std::string original = read_file(path_);
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    std::string text = original.substr(0, i % 4 == 0 ? random() % original.size() : original.size());
    for (unsigned j = random() % 4; j > 0 && !text.empty(); --j) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    file_.overwrite(text);
    try {
      read_npy(path_);
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace detent
