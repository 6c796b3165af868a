#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/cli/program_for_test.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/files/safetensors.h"
#include "detent/files/temporary_file_test.h"
#include "detent/formats/quant_spec.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::Not;

Tensor wave(const Shape& shape) {
  Tensor tensor(DType::kFloat32, shape);
  float angle = 0;
  for (float& value : tensor.values<float>()) value = std::sin(angle += 0.7F);
  return tensor;
}

class TensorCommands : public testing::Test {
 protected:
  TensorCommands() {
    write_safetensors(input_,
                      std::vector<std::pair<std::string, Tensor>>{
                          {"layer.weight", wave({6, 11})},
                          {"layer.bias", wave({6})},
                          {"empty", Tensor(DType::kFloat32, {0, 3})},
                          {"steps", Tensor::from<int64_t>({1}, std::vector<int64_t>{7})}},
                      {{"origin", "test"}});
  }

  std::string path(const char* name) const { return (file_.get().parent_path() / name).string(); }
  ProgramResult tensor(std::vector<std::string> args) const {
    args.insert(args.begin(), "tensor");
    return run_program(args);
  }
  static Tensor find(const SafetensorsFile& file, const std::string& name) {
    for (const auto& [stored, tensor] : file.tensors) {
      if (stored == name) return tensor;
    }
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }
  void expect_failure(const std::vector<std::string>& args, int status, const std::string& message) const {
    const ProgramResult result = tensor(args);
    EXPECT_EQ(result.status, status) << message;
    EXPECT_THAT(result.errors, HasSubstr(message));
    EXPECT_EQ(result.output, "");
    EXPECT_FALSE(std::filesystem::exists(path("out.safetensors"))) << message;
  }

  TemporaryPath file_{"input.safetensors"};
  std::string input_ = file_.get().string();
};

TEST_F(TensorCommands, QuantizeWritesWhatSimulateGives) {
  const std::string output = path("out.safetensors");
  const ProgramResult result = tensor(
      {"quantize", input_, "-o", output, "--format", "fixed:width=4,frac_width=2", "--tensors", "weight$"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr("SQNR dB"), HasSubstr("layer.weight"), Not(HasSubstr("bias"))));
  const SafetensorsFile file = read_safetensors(output);
  EXPECT_EQ(file.metadata.at("origin"), "test");
  const QuantSpec spec = parse_quant_spec_text("fixed:width=4,frac_width=2");
  EXPECT_TRUE(find(file, "layer.weight").equals(fake_quantize(spec, wave({6, 11}))));
  EXPECT_TRUE(find(file, "layer.bias").equals(wave({6})));
  EXPECT_EQ(find(file, "steps").values<int64_t>()[0], 7);
}

TEST_F(TensorCommands, PackedFilesUnpackToTheSame) {
  for (const std::vector<std::string>& format :
       {std::vector<std::string>{"fixed:width=5,frac_width=3"},
        {"ternary:scaling_factor=true,threshold=0.2,granularity=channel", "--packing", "base3"},
        {"block_fp:width=5,exponent_width=6,block_size=2x4"},
        {"mx:block_axis=0"},
        {"nvfp4"}}) {
    const auto quantize = [&](const char* name, bool packed) {
      std::vector<std::string> args = {"quantize", input_, "-o", path(name), "--overwrite", "--format"};
      args.insert(args.end(), format.begin(), packed ? format.end() : format.begin() + 1);
      if (packed) args.emplace_back("--packed");
      const ProgramResult result = tensor(args);
      ASSERT_EQ(result.status, 0) << result.errors;
    };
    quantize("plain.safetensors", false);
    quantize("packed.safetensors", true);
    ASSERT_EQ(
        tensor({"unpack", path("packed.safetensors"), "--overwrite", "-o", path("back.safetensors")}).status,
        0);
    EXPECT_EQ(find(read_safetensors(path("packed.safetensors")), "layer.weight.codes").dtype(),
              DType::kUInt8);
    const SafetensorsFile plain = read_safetensors(path("plain.safetensors"));
    const SafetensorsFile back = read_safetensors(path("back.safetensors"));
    ASSERT_EQ(back.tensors.size(), plain.tensors.size());
    EXPECT_EQ(back.metadata, plain.metadata);
    const ProgramResult same = tensor({"compare", path("plain.safetensors"), path("packed.safetensors")});
    EXPECT_THAT(same.output, AllOf(HasSubstr("| layer.weight"), HasSubstr(" inf "), HasSubstr("1.000000")));
    for (const auto& [name, tensor] : plain.tensors) {
      EXPECT_TRUE(find(back, name).equals(tensor)) << name;
    }
  }
}

/// Tensors of other programs have no metadata but their dtype.
TEST_F(TensorCommands, EightBitFloatsUnpackToFloat32) {
  Tensor codes(DType::kFloat8E4M3, {3});
  for (size_t i = 0; i < 3; ++i) codes.bytes()[i] = static_cast<std::byte>(0x38 + 8 * i);
  write_safetensors(input_, std::vector<std::pair<std::string, Tensor>>{{"w", codes}});
  ASSERT_EQ(tensor({"unpack", input_, "-o", path("back.safetensors")}).status, 0);
  const Tensor back = find(read_safetensors(path("back.safetensors")), "w");
  EXPECT_TRUE(back.equals(Tensor::from<float>({3}, std::vector<float>{1, 2, 4})));
  const ProgramResult result = tensor({"quantize", input_, "--format", "fp8_e4m3fn"});
  EXPECT_THAT(result.output, HasSubstr(" inf "));
}

TEST_F(TensorCommands, SeveralFormatsAreCompared) {
  const ProgramResult result =
      tensor({"quantize", input_, "--format", "fixed:width=8,frac_width=6", "--format", "ternary:mean=0.6"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("frac_width=6"), HasSubstr("ternary:mean=0.6"), HasSubstr("(all)")));
}

/// Parameters that a format's text leaves open follow from the tensor: fixed point is then about as fine as
/// affine.
TEST_F(TensorCommands, ParametersThatAreNotGivenComeFromTheTensor) {
  const Shape shape = {40, 50};
  const auto scaled_wave = [&](float scale) {
    Tensor values = wave(shape);
    for (float& value : values.values<float>()) value *= scale;
    return values;
  };
  write_safetensors(input_,
                    std::vector<std::pair<std::string, Tensor>>{{"large", scaled_wave(100)},
                                                                {"small", scaled_wave(0.001F)},
                                                                {"zeros", Tensor(DType::kFloat32, {3})}},
                    {});
  const ProgramResult result =
      tensor({"quantize", input_, "-o", path("packed.safetensors"), "--packed", "--format", "fixed:width=8"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("| large  | fixed:frac_width=0 "), HasSubstr("| small  | fixed:frac_width=16 "),
                    HasSubstr("| zeros  | fixed "), HasSubstr("| (all)  | fixed "),
                    HasSubstr("fixed: frac_width is not given: each tensor's own, from its largest")));
  const SafetensorsFile packed = read_safetensors(path("packed.safetensors"));
  EXPECT_THAT(packed.metadata.at("detent.packed.small"), HasSubstr("\"fixed:frac_width=16\""));
  ASSERT_EQ(tensor({"unpack", path("packed.safetensors"), "-o", path("back.safetensors")}).status, 0);
  ASSERT_EQ(tensor({"quantize", input_, "-o", path("plain.safetensors"), "--format", "fixed"}).status, 0);
  for (const auto& [name, tensor] : read_safetensors(path("plain.safetensors")).tensors) {
    const Tensor back = find(read_safetensors(path("back.safetensors")), name);
    EXPECT_TRUE(std::ranges::equal(back.values<float>(), tensor.values<float>())) << name;
  }
  EXPECT_TRUE(find(read_safetensors(path("plain.safetensors")), "small")
                  .equals(fake_quantize(parse_quant_spec_text("fixed:frac_width=16"), scaled_wave(0.001F))));

  for (const char* text : {"minifloat_ieee:width=8", "minifloat_denorm:width=8", "log:width=6"}) {
    EXPECT_THAT(tensor({"quantize", input_, "--format", text}).output,
                AllOf(HasSubstr("exponent_bias="), HasSubstr(": exponent_bias is not given")));
  }
  for (const char* text :
       {"fixed:frac_width=3", "log:exponent_bias=4", "int8", "ternary:threshold=0.1", "mx"}) {
    EXPECT_THAT(tensor({"quantize", input_, "--format", text}).output, Not(HasSubstr("not given"))) << text;
  }
}

TEST_F(TensorCommands, NamesOfIntegerFormats) {
  const ProgramResult result =
      tensor({"quantize", input_, "--tensors", "weight", "--format", "int8", "--format", "int4_g4"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("affine:symmetric=true "),
                    HasSubstr("affine:width=4,symmetric=true,granularity=group,group_size=4 ")));
  ASSERT_EQ(
      tensor({"quantize", input_, "-o", path("p.safetensors"), "--packed", "--format", "int4_g4"}).status, 0);
  const SafetensorsFile packed = read_safetensors(path("p.safetensors"));
  EXPECT_EQ(find(packed, "layer.weight.scales").shape(), (Shape{18}));
  EXPECT_EQ(find(packed, "layer.weight.codes").shape(), (Shape{33}));
  ASSERT_EQ(tensor({"unpack", path("p.safetensors"), "-o", path("back.safetensors")}).status, 0);
  EXPECT_TRUE(find(read_safetensors(path("back.safetensors")), "layer.weight")
                  .equals(fake_quantize(parse_quant_spec_text("int4_g4"), wave({6, 11}))));
  expect_failure({"quantize", input_, "--format", "imt8"}, 2, "did you mean \"int8\"?");
  expect_failure({"quantize", input_, "--format", "int8:width=4"}, 2, "but \"int8\" says 8");
}

/// 66 codes of 4 bits, a byte for each of 6 rows, 4 bytes for the tensor: 43 bytes.
TEST_F(TensorCommands, BitsCountWhatBlocksAndTensorsStore) {
  const ProgramResult result = tensor({"quantize", input_, "--format", "nvfp4"});
  EXPECT_THAT(result.output, AllOf(HasSubstr("| layer.weight | nvfp4  |        5.212 |"),
                                   HasSubstr("| layer.bias   | nvfp4  |        10.67 |"),
                                   HasSubstr("| (all)        | nvfp4  |        5.667 |"),
                                   HasSubstr("| empty        | nvfp4  |            - |")));
}

TEST_F(TensorCommands, NumpyFilesToo) {
  write_npy(path("a.npy"), wave({4, 5}));
  ASSERT_EQ(tensor({"quantize", path("a.npy"), "-o", path("b.npy"), "--format", "binary"}).status, 0);
  EXPECT_TRUE(read_npy(path("b.npy")).equals(fake_quantize(parse_quant_spec_text("binary"), wave({4, 5}))));
  EXPECT_THAT(tensor({"compare", path("a.npy"), path("b.npy")}).output, HasSubstr("| a "));
  ASSERT_EQ(tensor({"quantize", path("a.npy"), "-o", path("c.safetensors"), "--packed", "--format", "binary"})
                .status,
            0);
  ASSERT_EQ(tensor({"unpack", path("c.safetensors"), "-o", path("d.npy")}).status, 0);
  EXPECT_TRUE(read_npy(path("d.npy")).equals(read_npy(path("b.npy"))));
}

TEST_F(TensorCommands, WrongUsageAndBadInputWriteNothing) {
  const std::string out = path("out.safetensors");
  const std::vector<std::string> base = {"quantize", input_, "-o", out, "--format", "fixed"};
  const auto with = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> args = base;
    args.insert(args.end(), more);
    return args;
  };
  expect_failure({}, 2, "a command is missing");
  expect_failure({"quantise"}, 2, "did you mean \"quantize\"?");
  expect_failure({"quantize", input_}, 2, "--format");
  expect_failure({"quantize", input_, "-o", out, "--format", "fixed:widht=3"}, 2, "did you mean \"width\"?");
  expect_failure({"quantize", input_, "--packed", "--format", "fixed"}, 2, "without -o FILE");
  expect_failure({"quantize", input_, "-o", path("out.pt"), "--format", "fixed"}, 2, ".safetensors or .npy");
  expect_failure({"quantize", input_, "-o", path("o.npy"), "--format", "fixed"}, 1, "holds one tensor");
  expect_failure(with({"--format", "binary"}), 2, "nothing can be written");
  expect_failure(with({"--packing", "base3"}), 2, "only with --packed");
  expect_failure(with({"--packed", "--packing", "base4"}), 2, "did you mean \"base3\"?");
  expect_failure(with({"--packed", "--packing", "base3"}), 1, "fixed is not ternary");
  expect_failure(with({"--tensors", "("}), 2, "no regular expression");
  expect_failure(with({"--tensors", "nothing"}), 1, "matches --tensors nothing");
  expect_failure({"quantize", path("missing.npy"), "-o", out, "--format", "fixed"}, 1, "missing.npy");
}

TEST_F(TensorCommands, NanIsAnErrorOnlyWherePacked) {
  Tensor values = wave({8});
  values.values<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  write_npy(path("nan.npy"), values);
  expect_failure(
      {"quantize", path("nan.npy"), "-o", path("out.safetensors"), "--packed", "--format", "fixed"}, 1,
      "tensor \"nan\": encode: element 5 is NaN");
  EXPECT_EQ(tensor({"quantize", path("nan.npy"), "--format", "fixed"}).status, 0);
}

TEST_F(TensorCommands, CompareNamesWhatDoesNotMatch) {
  write_safetensors(path("other.safetensors"),
                    std::vector<std::pair<std::string, Tensor>>{{"layer.weight", wave({11, 6})}});
  expect_failure({"compare", input_, path("other.safetensors")}, 1, "no tensor \"layer.bias\"");
  expect_failure({"compare", input_, path("other.safetensors"), "--tensors", "weight"}, 1,
                 "shape [6, 11] in");
}

TEST_F(TensorCommands, ConvertsCheckpoints) {
  const std::vector<std::pair<std::string, Tensor>> state = {{"w", wave({3, 4})},
                                                             {"n", Tensor(DType::kInt64, {})}};
  write_state_dict(path("model.pt"), state);
  ASSERT_EQ(tensor({"unpack", path("model.pt"), "-o", path("out.safetensors")}).status, 0);
  const SafetensorsFile file = read_safetensors(path("out.safetensors"));
  ASSERT_EQ(file.tensors.size(), 2U);
  for (const auto& [name, value] : state) EXPECT_TRUE(find(file, name).equals(value)) << name;
  const ProgramResult compared = tensor({"compare", path("model.pt"), path("out.safetensors")});
  EXPECT_EQ(compared.status, 0) << compared.errors;
  EXPECT_THAT(compared.output, HasSubstr("| w "));
  ASSERT_EQ(tensor({"quantize", path("model.pt"), "--format", "fixed"}).status, 0);
}

}  // namespace
}  // namespace detent
