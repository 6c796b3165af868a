#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "detent/core/convert.h"
#include "detent/core/error_of_for_test.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/model_file.h"

#include "detent/onnx/model_for_test.h"

// Element types of ONNX that no DType is: unsigned integers of 16 and 32 bits, integers and floats of few.

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Doubles = std::vector<double>;
using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

enum ElementCode : int {
  kUInt16 = 4,
  kUInt32 = 12,
  kUInt64 = 13,
  kFloat8E4M3 = 17,
  kFloat8E4M3Fnuz = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2Fnuz = 20,
  kUInt4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUInt2 = 25,
  kInt2 = 26
};

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kEndless = std::numeric_limits<double>::infinity();

onnx::TensorProto packed(const std::string& name, ElementCode type, const Ints& dims,
                         const std::string& bytes) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (const int64_t dim : dims) tensor.add_dims(dim);
  tensor.set_raw_data(bytes);
  return tensor;
}

Tensor read(const onnx::TensorProto& tensor) {
  const TemporaryPath file("tensor.pb");
  write_file(file.get(), tensor.SerializeAsString());
  return read_onnx_tensor(file.get());
}

Doubles values_of(const Tensor& tensor) {
  const Tensor doubles = to_dtype(tensor, DType::kFloat64);
  return {doubles.values<double>().begin(), doubles.values<double>().end()};
}

void expect_values(ElementCode type, const Ints& dims, const std::string& bytes, const Doubles& expected) {
  const Doubles values = values_of(read(packed("x", type, dims, bytes)));
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_TRUE(values[i] == expected[i] || (std::isnan(values[i]) && std::isnan(expected[i])))
        << type << " " << i << ": " << values[i];
}

TEST(OnnxNarrowTypes, ElementsAreUnpacked) {
  expect_values(kUInt16, {2}, {'\x01', '\x02', '\xff', '\xff'}, {513, 65535});
  expect_values(kUInt32, {1}, "\xfe\xff\xff\xff", {4294967294.0});
  expect_values(kUInt4, {3}, "\xf1\x08", {1, 15, 8});
  expect_values(kInt4, {3}, "\xf7\x08", {7, -1, -8});
  expect_values(kUInt2, {5}, "\xe4\x03", {0, 1, 2, 3, 3});
  expect_values(kInt2, {4}, "\xe4", {0, 1, -2, -1});
  expect_values(kFloat8E4M3, {4}, "\x7e\x7f\x81\x38", {448, kNoNumber, -std::ldexp(1, -9), 1});
  expect_values(kFloat8E4M3Fnuz, {4}, "\x7f\x80\x01\x40", {240, kNoNumber, std::ldexp(1, -10), 1});
  expect_values(kFloat8E5M2, {4}, "\x7b\x7c\xfc\x7d", {57344, kEndless, -kEndless, kNoNumber});
  expect_values(kFloat8E5M2Fnuz, {4}, "\x7f\x80\xc0\x01", {57344, kNoNumber, -1, std::ldexp(1, -17)});
  expect_values(kFloat4E2M1, {4}, "\x71\xf3", {0.5, 6, 1.5, -6});
  expect_values(kFloat8E8M0, {3}, "\x7f\x80\xff", {1, 2, kNoNumber});
}

TEST(OnnxNarrowTypes, ElementsMayStandInOtherFields) {
  onnx::TensorProto tensor = packed("x", kInt4, {3}, "");
  tensor.clear_raw_data();
  tensor.add_int32_data(0xf7);
  tensor.add_int32_data(0x08);
  EXPECT_EQ(values_of(read(tensor)), (Doubles{7, -1, -8}));
  onnx::TensorProto wide = packed("x", kUInt32, {1}, "");
  wide.clear_raw_data();
  wide.add_uint64_data(4294967295U);
  EXPECT_EQ(values_of(read(wide)), (Doubles{4294967295.0}));
}

TEST(OnnxNarrowTypes, ElementsMustFitTheShape) {
  EXPECT_THAT(error_of([] { read(packed("w", kInt4, {5}, "ab")); }),
              HasSubstr("tensor \"w\": 2 bytes of data for INT4 of shape [5], expected 3"));
}

/// x, of a type, through one node to y of another.
OnnxModelForTest& one_node(OnnxModelForTest& model, int from, const onnx::NodeProto& node, int to) {
  model.input("x", {4}, static_cast<onnx::TensorProto::DataType>(1));
  model.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(from);
  model.output("y", {4}, static_cast<onnx::TensorProto::DataType>(1));
  model.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(to);
  *model.graph().add_node() = node;
  return model;
}

Tensor result_of(const OnnxModelForTest& model, const Tensor& x) {
  return IntegerExecutor().compile(import_onnx(model.write()))->run(std::span(&x, 1)).at(0);
}

Doubles cast(ElementCode to, const Floats& x) {
  OnnxModelForTest model(25);
  one_node(model, 1, onnx_node("Cast", {"x"}, {"y"}, {{"to", static_cast<int>(to)}}), to);
  return values_of(result_of(model, Tensor::from({4}, x)));
}

TEST(OnnxNarrowTypes, CastsWrapIntegersAndSaturateFloats) {
  EXPECT_THAT(cast(kInt4, {7.9F, 8, -9, -1}), ElementsAre(7, -8, 7, -1));
  EXPECT_THAT(cast(kUInt4, {15, 16, -1, 3.5F}), ElementsAre(15, 0, 15, 3));
  EXPECT_THAT(cast(kInt2, {1, 2, -3, -1}), ElementsAre(1, -2, 1, -1));
  EXPECT_THAT(cast(kUInt16, {65535, 65536, -1, 2}), ElementsAre(65535, 0, 65535, 2));
  EXPECT_THAT(cast(kUInt32, {-1, 4294967296.0F, 3, 2}), ElementsAre(4294967295.0, 0, 3, 2));
  EXPECT_THAT(cast(kFloat8E4M3, {1000, -1000, 17, 19}), ElementsAre(448, -448, 16, 20));
  EXPECT_THAT(cast(kFloat8E5M2Fnuz, {1e6F, 1.1F, 1.2F, -3}), ElementsAre(57344, 1, 1.25, -3));
  EXPECT_THAT(cast(kFloat4E2M1, {9, std::nanf(""), 0.7F, -2.5F}), ElementsAre(6, 0, 0.5, -2));
}

TEST(OnnxNarrowTypes, CastsThatNoFormatDoesAreRefused) {
  const auto error = [](ElementCode to, const std::vector<OnnxAttribute>& more) {
    std::vector<OnnxAttribute> attributes = more;
    attributes.emplace_back("to", static_cast<int>(to));
    OnnxModelForTest model(25);
    one_node(model, 1, onnx_node("Cast", {"x"}, {"y"}, attributes), to);
    return error_of([&] { import_onnx(model.write()); });
  };
  EXPECT_EQ(error(kFloat8E5M2, {{"saturate", 0}}), "");
  EXPECT_THAT(error(kFloat8E8M0, {}), HasSubstr("rounding to FLOAT8E8M0, which is not supported"));
}

/// Values rounded beyond the largest one are NaN; in the middle to the even code, which that of 448 is and
/// those of 240 and 57344 are not.
TEST(OnnxNarrowTypes, CastsThatDoNotSaturateGiveNaN) {
  const auto cast = [](ElementCode to, const std::vector<float>& x) {
    OnnxModelForTest model(25);
    one_node(model, 1, onnx_node("Cast", {"x"}, {"y"}, {{"to", static_cast<int>(to)}, {"saturate", 0}}), to);
    Doubles values = values_of(result_of(model, Tensor::from({4}, x)));
    for (double& value : values) value = std::isnan(value) ? -1 : value;
    return values;
  };
  constexpr float kEndlessFloat = std::numeric_limits<float>::infinity();
  EXPECT_EQ(cast(kFloat8E4M3, {1.06F, 464, 464.1F, kEndlessFloat}), (Doubles{1, 448, -1, -1}));
  EXPECT_EQ(cast(kFloat8E4M3Fnuz, {1.06F, 247.9F, 248, -kEndlessFloat}), (Doubles{1, 240, -1, -1}));
  EXPECT_EQ(cast(kFloat8E5M2Fnuz, {1.06F, 61439, 61440, -kEndlessFloat}), (Doubles{1, 57344, -1, -1}));
}

/// Held by int64: 2^63 and more are refused.
TEST(OnnxNarrowTypes, IntegersOf64BitsWithoutSign) {
  expect_values(kUInt64, {1}, std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8), {0x1p63});
  EXPECT_THAT(error_of([] { read(packed("w", kUInt64, {1}, "\xff\xff\xff\xff\xff\xff\xff\xff")); }),
              HasSubstr("18446744073709551615 of UINT64, expected at most 9223372036854775807"));
  OnnxModelForTest model(18);
  one_node(model, kUInt64, onnx_node("BitwiseXor", {"x", "x"}, {"y"}), kUInt64);
  EXPECT_EQ(values_of(result_of(model, Tensor::from({4}, std::vector<int64_t>{0, 1, 5, INT64_MAX}))),
            (Doubles{0, 0, 0, 0}));
}

TEST(OnnxNarrowTypes, BitsOfIntegersAsOthers) {
  OnnxModelForTest model(26);
  one_node(model, onnx::TensorProto::INT32,
           onnx_node("BitCast", {"x"}, {"y"}, {{"to", static_cast<int>(kUInt32)}}), kUInt32);
  EXPECT_EQ(values_of(result_of(model, Tensor::from({4}, std::vector<int32_t>{0, 7, -1, INT32_MIN}))),
            (Doubles{0, 7, 4294967295.0, 2147483648.0}));
  OnnxModelForTest floats(26);
  one_node(floats, 1, onnx_node("BitCast", {"x"}, {"y"}, {{"to", 6}}), 6);
  EXPECT_THAT(error_of([&] { import_onnx(floats.write()); }), HasSubstr("bits of other than integers"));
}

TEST(OnnxNarrowTypes, SumsAndProductsWrap) {
  for (const char* op : {"Add", "Mul", "Sub"}) {
    OnnxModelForTest model(14);
    one_node(model, kUInt16, onnx_node(op, {"x", "c"}, {"y"}), kUInt16);
    *model.graph().add_initializer() = packed("c", kUInt16, {1}, "\xff\xff");
    const Tensor x = Tensor::from({4}, std::vector<int32_t>{0, 1, 2, 65535});
    const Doubles expected = op == std::string("Add")   ? Doubles{65535, 0, 1, 65534}
                             : op == std::string("Mul") ? Doubles{0, 65535, 65534, 1}
                                                        : Doubles{1, 2, 3, 0};
    EXPECT_EQ(values_of(result_of(model, x)), expected) << op;
  }
}

TEST(OnnxNarrowTypes, BitsAreShiftedOutAtBothEnds) {
  const auto shifted = [](const char* direction) {
    OnnxModelForTest model(11);
    one_node(model, kUInt16, onnx_node("BitShift", {"x", "c"}, {"y"}, {{"direction", direction}}), kUInt16);
    *model.graph().add_initializer() =
        packed("c", kUInt16, {4}, {'\x01', '\0', '\x08', '\0', '\x0f', '\0', '\x10', '\0'});
    return values_of(result_of(model, Tensor::from({4}, std::vector<int32_t>{65535, 257, 3, 1})));
  };
  EXPECT_EQ(shifted("LEFT"), (Doubles{65534, 256, 32768, 0}));
  EXPECT_EQ(shifted("RIGHT"), (Doubles{32767, 1, 0, 0}));
  EXPECT_THAT(error_of([&] { shifted("UP"); }), HasSubstr("direction is \"UP\", expected LEFT or RIGHT"));
}

TEST(OnnxNarrowTypes, BitsWithASignKeepItToTheRight) {
  const auto shifted = [](const char* direction) {
    OnnxModelForTest model(28);
    one_node(model, 3, onnx_node("BitShift", {"x", "c"}, {"y"}, {{"direction", direction}}), 3);
    model.constant<int8_t>("c", {4}, {1, 7, 9, -1});
    return values_of(result_of(model, Tensor::from({4}, std::vector<int8_t>{-3, -128, -5, 5})));
  };
  EXPECT_EQ(shifted("LEFT"), (Doubles{-6, 0, 0, 0}));
  EXPECT_EQ(shifted("RIGHT"), (Doubles{-2, -1, -1, 0}));
}

TEST(OnnxNarrowTypes, BitsAreTurnedOver) {
  OnnxModelForTest model(18);
  one_node(model, kUInt16, onnx_node("BitwiseNot", {"x"}, {"y"}), kUInt16);
  const Tensor x = Tensor::from({4}, std::vector<int32_t>{0, 1, 65535, 255});
  EXPECT_EQ(values_of(result_of(model, x)), (Doubles{65535, 65534, 0, 65280}));
  OnnxModelForTest signs(18);
  one_node(signs, 6, onnx_node("BitwiseNot", {"x"}, {"y"}), 6);
  EXPECT_EQ(values_of(result_of(signs, x)), (Doubles{-1, -2, -65536, -256}));
}

TEST(OnnxNarrowTypes, OperatorsThatMayNotKeepThemAreRefused) {
  OnnxModelForTest model(18);
  one_node(model, kUInt16, onnx_node("ReduceSum", {"x"}, {"y"}), kUInt16);
  EXPECT_THAT(error_of([&] { import_onnx(model.write()); }),
              HasSubstr("(ReduceSum): an input of UINT16, which is not supported for this operator"));
}

/// Codes of a computed value, and what they stand for.
Graph quantized_value(ElementCode type, const std::string& zero_bytes) {
  OnnxModelForTest model(25);
  model.input("x", {4});
  model.output("y");
  model.constant("scale", {}, Floats{0.5F});
  *model.graph().add_initializer() = packed("zero", type, {}, zero_bytes);
  model.node("QuantizeLinear", {"x", "scale", "zero"}, {"codes"});
  model.node("DequantizeLinear", {"codes", "scale", "zero"}, {"values"});
  model.node("Neg", {"values"}, {"y"});
  return import_onnx(model.write());
}

Doubles run(const Graph& graph, const Floats& x) {
  const Tensor input = Tensor::from({4}, x);
  return values_of(IntegerExecutor().compile(graph)->run(std::span(&input, 1)).at(0));
}

TEST(OnnxNarrowTypes, CodesOfFewAndOfManyBitsAreQuantizers) {
  const Graph four = quantized_value(kInt4, {'\x01'});
  const Graph sixteen = quantized_value(kUInt16, {'\x00', '\x80'});
  for (const Graph* graph : {&four, &sixteen}) {
    EXPECT_EQ(graph->nodes().size(), 3);
    EXPECT_TRUE(graph->nodes()[1].rounding("data_in_0").has_value());
  }
  EXPECT_EQ(run(four, {0.2F, 100, -100, -0.8F}), (Doubles{0, -3, 4.5, 1}));
  EXPECT_EQ(run(sixteen, {0.2F, 100.3F, -1e6F, -0.8F}), (Doubles{0, -100.5, 16384, 1}));
}

TEST(OnnxNarrowTypes, ConstantCodesOfFourBitsAreARoundedParameter) {
  OnnxModelForTest model(21);
  model.input("x", {1, 4});
  model.output("y");
  *model.graph().add_initializer() = packed("codes", kInt4, {4, 2}, "\x71\x28\xf0\x13");
  model.constant("scale", {2, 2}, Floats{1, 2, 3, 4});
  model.node("DequantizeLinear", {"codes", "scale"}, {"w"}, {{"axis", 0}, {"block_size", 2}});
  model.node("MatMul", {"x", "w"}, {"y"});
  const Graph graph = import_onnx(model.write());
  EXPECT_TRUE(graph.nodes()[1].rounding("weight").has_value());
  const Tensor x = Tensor::from({1, 4}, Floats{1, 1, 1, 1});
  const Doubles y = values_of(IntegerExecutor().compile(graph)->run(std::span(&x, 1)).at(0));
  EXPECT_EQ(y, (Doubles{1 - 8 + 0 + 9, 14 + 4 - 4 + 4}));
}

TEST(OnnxNarrowTypes, CodesOfFloatsAreScaledFloats) {
  const Graph graph = quantized_value(kFloat8E4M3, {'\0'});
  EXPECT_EQ(run(graph, {1000, 8.6F, -0.25F, 0}), (Doubles{-224, -9, 0.25, 0}));
}

}  // namespace
}  // namespace detent
