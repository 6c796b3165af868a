#include "detent/graph_files/packed_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;

Tensor ramp(const Shape& shape) {
  Tensor tensor(DType::kFloat32, shape);
  float next = -1.5F;
  for (float& value : tensor.values<float>()) value = next += 0.4F;
  return tensor;
}

class PackedTensors : public testing::Test {
 protected:
  void write(const std::vector<PackedEntry>& entries, const std::vector<Tensor>& tensors) {
    write_packed_tensors(
        path_, entries, {{"made", "here"}}, [&](size_t i) { return tensors[i]; }, scratch_);
  }
  PackedEntry packed(const char* name, const Shape& shape, const char* spec,
                     Packing packing = Packing::kBits) {
    return {name, DType::kFloat32, shape, parse_quant_spec_text(spec), packing};
  }
  void expect_error(const SafetensorsFile& file, const std::string& message) {
    EXPECT_THAT([&] { unpack_tensors(file, "x.safetensors"); },
                ThrowsMessage<Error>(AllOf(HasSubstr("x.safetensors"), HasSubstr(message))));
  }

  TemporaryPath file_{"packed.safetensors"};
  const Scratch scratch_{file_.get().parent_path()};
  const std::filesystem::path& path_ = file_.get();
};

TEST_F(PackedTensors, UnpackToWhatWasSimulated) {
  const std::vector<Tensor> tensors = {ramp({3, 5}), ramp({2}), ramp({2, 4}), ramp({0, 3})};
  const char* const ternary = "ternary:scaling_factor=true,granularity=channel";
  const char* const fixed = "fixed:width=5,frac_width=2";
  write({packed("a", {3, 5}, ternary, Packing::kBase3),
         {"plain", DType::kFloat32, {2}},
         packed("b", {2, 4}, fixed),
         packed("empty", {0, 3}, ternary)},
        tensors);
  const SafetensorsFile file = read_safetensors(path_);
  EXPECT_EQ(file.metadata.at("detent.packed.b"),
            R"({"format": "fixed:width=5,frac_width=2", "shape": [2, 4], "packing": "bits"})");
  EXPECT_THAT(plain_metadata(file), ElementsAre(Pair("made", "here")));
  const std::vector<StoredTensor> stored = unpack_tensors(file, "file");
  ASSERT_EQ(stored.size(), 4U);
  EXPECT_EQ(stored[0].name, "a");
  EXPECT_EQ(std::get<Encoded>(stored[0].content).codes().numel(), 3);
  EXPECT_TRUE(
      stored_values(stored[0], scratch_).equals(fake_quantize(parse_quant_spec_text(ternary), tensors[0])));
  EXPECT_TRUE(stored_values(stored[1], scratch_).equals(tensors[1]));
  EXPECT_TRUE(
      stored_values(stored[2], scratch_).equals(fake_quantize(parse_quant_spec_text(fixed), tensors[2])));
  EXPECT_EQ(stored_values(stored[3], scratch_).shape(), Shape({0, 3}));
}

TEST_F(PackedTensors, BlocksHaveStreamsOfScales) {
  const char* const block_fp = "block_fp:width=5,exponent_width=3,block_size=2";
  write({packed("a", {3, 5}, block_fp), packed("b", {2, 33}, "nvfp4")}, {ramp({3, 5}), ramp({2, 33})});
  const SafetensorsFile file = read_safetensors(path_);
  std::map<std::string, Shape> shapes;
  for (const auto& [name, tensor] : file.tensors) shapes[name] = tensor.shape();
  EXPECT_THAT(shapes, ElementsAre(Pair("a.codes", Shape({10})), Pair("a.exponents", Shape({4})),
                                  Pair("b.codes", Shape({33})), Pair("b.scales", Shape({6})),
                                  Pair("b.tensor_scale", Shape({1}))));
  const std::vector<StoredTensor> stored = unpack_tensors(file, "file");
  ASSERT_EQ(stored.size(), 2U);
  EXPECT_TRUE(stored_values(stored[0], scratch_)
                  .equals(fake_quantize(parse_quant_spec_text(block_fp), ramp({3, 5}))));
  EXPECT_TRUE(stored_values(stored[1], scratch_)
                  .equals(fake_quantize(parse_quant_spec_text("nvfp4"), ramp({2, 33}))));
}

/// The bytes are those of PyTorch's torch.float8_e4m3fn, float8_e5m2, float16 and bfloat16.
TEST_F(PackedTensors, HaveTheDtypesOfSafetensors) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Tensor values =
      Tensor::from<float>({2, 3}, std::vector<float>{1, -0.0F, 448, 0x1p-9F, kInfinity, kNan});
  struct Case {
    const char* format;
    const char* dtype;
    std::vector<uint8_t> bytes;
  };
  const Case cases[] = {
      {"fp8_e4m3fn", "F8_E4M3", {0x38, 0x80, 0x7E, 0x01, 0x7E, 0x7F}},
      {"fp8_e5m2:saturate=false", "F8_E5M2", {0x3C, 0x80, 0x5F, 0x18, 0x7C, 0x7F}},
      {"fp16:saturate=false",
       "F16",
       {0x00, 0x3C, 0x00, 0x80, 0x00, 0x5F, 0x00, 0x18, 0x00, 0x7C, 0xFF, 0x7F}},
      {"bf16:saturate=false",
       "BF16",
       {0x80, 0x3F, 0x00, 0x80, 0xE0, 0x43, 0x00, 0x3B, 0x80, 0x7F, 0xFF, 0x7F}},
  };
  for (const auto& [format, dtype, bytes] : cases) {
    SCOPED_TRACE(format);
    write({packed("a", {2, 3}, format)}, {values});
    EXPECT_THAT(read_file(path_),
                HasSubstr(fmt::format(R"("a":{{"dtype":"{}","shape":[2,3],"data_offsets":[0,{}]}})", dtype,
                                      bytes.size())));
    SafetensorsFile file = read_safetensors(path_);
    const auto stored = file.tensors.at(0).second.bytes();
    EXPECT_TRUE(std::ranges::equal(stored, std::as_bytes(std::span(bytes))));
    const Tensor expected = fake_quantize(parse_quant_spec_text(format), values);
    const auto decoded = [&] { return stored_values(unpack_tensors(file, "file").at(0), scratch_); };
    EXPECT_EQ(decoded().shape(), expected.shape());
    EXPECT_TRUE(std::ranges::equal(decoded().values<float>().first(5), expected.values<float>().first(5)));
    EXPECT_TRUE(std::isnan(decoded().values<float>()[5]));
    // As older programs wrote it.
    const auto size = static_cast<int64_t>(bytes.size());
    file.tensors = {{"a.codes", Tensor::from<uint8_t>({size}, bytes)}};
    file.checksums.clear();
    EXPECT_TRUE(std::ranges::equal(decoded().values<float>().first(5), expected.values<float>().first(5)));
    file.tensors = {{"a", Tensor::from<uint8_t>({size}, bytes)}};
    expect_error(file, "tensor \"a\" is uint8 of shape");
  }
}

TEST_F(PackedTensors, RefusesNamesThatClash) {
  EXPECT_THAT(
      [&] {
        write({packed("a", {2}, "fixed"), {"a.codes", DType::kFloat32, {2}}}, {ramp({2}), ramp({2})});
      },
      ThrowsMessage<Error>(HasSubstr("\"a.codes\" is taken")));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(PackedTensors, SaysWhatIsWrong) {
  write({packed("a", {4}, "ternary:scaling_factor=true")}, {ramp({4})});
  const SafetensorsFile good = read_safetensors(path_);
  const auto described = [&](const std::string& text) {
    SafetensorsFile file = good;
    file.metadata["detent.packed.a"] = text;
    return file;
  };
  expect_error(described("1"), "expected an object with format, shape and packing");
  expect_error(described(R"({"format": "fixed"})"), "expected an object");
  expect_error(described(R"({"format": "fxied", "shape": [4], "packing": "bits"})"), "did you mean");
  expect_error(described(R"({"format": "fixed", "shape": [-4], "packing": "bits"})"), "expected sizes");
  expect_error(described(R"({"format": "fixed", "shape": [4], "packing": "bytes"})"), "bits, base3");
  expect_error(described(R"({"format": "fixed", "shape": [4], "packing": "bits"})"),
               "tensor \"a.codes\" is uint8 of shape [1], expected uint8 of shape [4]");
  SafetensorsFile file = good;
  std::erase_if(file.tensors, [](const auto& tensor) { return tensor.first == "a.scales"; });
  expect_error(file, "no tensor \"a.scales\"");
  file = good;
  file.tensors.emplace_back("a", ramp({4}));
  expect_error(file, "both packed and as it is");
  // 2^61 elements in one block.
  expect_error(described(R"({"format": "block_log:width=2,block_size=-1", "shape": [2305843009213693952], )"
                         R"("packing": "bits"})"),
               "expected uint8 of shape [576460752303423488]");
}

TEST_F(PackedTensors, DamageIsFoundInWhatIsUsed) {
  write({packed("a", {40}, "ternary:scaling_factor=true"), {"b", DType::kFloat32, {2}}},
        {ramp({40}), ramp({2})});
  SafetensorsFile file = read_safetensors(path_);
  for (const char* name : {"a.codes", "a.scales", "b"}) {
    file = read_safetensors(path_, TensorCheck::kLater);
    for (auto& [tensor_name, tensor] : file.tensors) {
      if (tensor_name == name) tensor.bytes()[0] ^= std::byte{1};
    }
    const std::vector<StoredTensor> stored = unpack_tensors(file, "x.safetensors");
    const size_t damaged = name[0] == 'a' ? 0 : 1;
    EXPECT_THAT([&] { stored_values(stored[damaged], scratch_); },
                ThrowsMessage<Error>(
                    HasSubstr(fmt::format("x.safetensors: damaged: the CRC-32 of tensor \"{}\"", name))));
    stored_values(stored[1 - damaged], scratch_);
  }
}

/// With and without files for the codes and the values: the same bytes, whatever the format's groups are.
TEST_F(PackedTensors, ScratchFilesChangeNothing) {
  const Shape shape = {6, 5, 34};
  const Scratch in_files(path_.parent_path(), 0);
  for (const char* spec :
       {"fixed:width=5,frac_width=2", "affine:width=7", "affine:width=4,granularity=channel,axis=1",
        "ternary:scaling_factor=true", "ternary:scaling_factor=true,granularity=channel,axis=2",
        "binary:scaling=per_tensor", "binary_residual:levels=3", "codebook:values=-1x0.5x3", "log:width=5",
        "fp8_e4m3fn", "minifloat_denorm", "block_fp:width=5,exponent_width=6,block_size=2x4",
        "block_minifloat:block_axis=0", "block_log:block_size=7", "mx:element=e2m1", "nvfp4"}) {
    SCOPED_TRACE(spec);
    const Tensor values = ramp(shape);
    write({packed("a", shape, spec)}, {values});
    const std::string expected = read_file(path_);
    write_packed_tensors(
        path_, {packed("a", shape, spec)}, {{"made", "here"}}, [&](size_t) { return values; }, in_files);
    EXPECT_TRUE(read_file(path_) == expected);
    const std::vector<StoredTensor> stored = unpack_tensors(read_safetensors(path_), "file");
    EXPECT_TRUE(stored_values(stored[0], in_files).equals(stored_values(stored[0], scratch_)));
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path_.parent_path()), {}), 1);
}

}  // namespace
}  // namespace detent
