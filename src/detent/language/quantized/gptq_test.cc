#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "detent/language/quantized/quantized_folder_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

struct GptqCase {
  uint32_t bits;
  int64_t group;
  std::optional<uint32_t> zero;
  bool is_second_version = false;
  bool is_reordered = false;
};

Encode gptq_encoder(const GptqCase& of) {
  return [=, draws = Draws()](const std::string& stem, int64_t out, int64_t in) mutable {
    Integers matrix{out, in, of.bits, of.group == -1 ? in : of.group};
    matrix.fill(draws, of.zero);
    if (of.is_reordered) std::ranges::reverse(matrix.group_of);
    std::vector<uint32_t> zeros = transposed_list(matrix.zeros, matrix.groups());
    for (uint32_t& zero : zeros) zero = of.is_second_version ? zero : (zero - 1) & ((1U << of.bits) - 1);
    return EncodedMatrix{
        {{stem + ".qweight", Integers::packed_columns(transposed_list(matrix.codes, in), out, of.bits)},
         {stem + ".qzeros", Integers::packed_rows(zeros, out, of.bits)},
         {stem + ".scales",
          narrow(DType::kFloat16, {matrix.groups(), out}, transposed_list(matrix.scales, matrix.groups()))},
         {stem + ".g_idx", Tensor::from<int32_t>({in}, matrix.group_of)}},
        matrix.weights()};
  };
}

TEST_F(QuantizedFolder, HasIntegersOfGptq) {
  const std::pair<GptqCase, double> cases[] = {{{4, 32, 8}, 6},
                                               {{4, 32, {}}, 7},
                                               {{4, 16, {}, true}, 9},
                                               {{3, 32, {}}, 7},
                                               {{2, 32, {}}, 7},
                                               {{8, -1, 128}, 9.1},
                                               {{8, 32, {}, true}, 11},
                                               {{4, 32, {}, false, true}, 9.1},
                                               {{4, 32, 8, false, true}, 5.1}};
  for (const auto& [of, bits] : cases) {
    Table json = {{"quant_method", "gptq"},
                  {"bits", static_cast<int64_t>(of.bits)},
                  {"group_size", of.group},
                  {"desc_act", of.is_reordered}};
    if (of.is_second_version) json["checkpoint_format"] = "gptq_v2";
    SCOPED_TRACE(fmt::format("{} bits, groups of {}", of.bits, of.group));
    expect_exact(json, gptq_encoder(of), bits);
  }
}

TEST_F(QuantizedFolder, HasTheFileNamesOfOlderLibrariesOfGptq) {
  const Table json = {{"bits", 4}, {"group_size", 32}, {"desc_act", false}};
  const auto [plain, stored] = tensors_by(gptq_encoder({4, 32, 8}));
  write({}, plain);
  const Tensor expected = executed();
  write({}, stored);
  write_json(folder_ / "quantize_config.json", Value(json));
  std::filesystem::rename(folder_ / "model.safetensors", folder_ / "gptq_model-4bit-32g.safetensors");
  EXPECT_TRUE(executed().equals(expected));
  Table map;
  for (const auto& [name, tensor] : stored) map[name] = "gptq_model-4bit-32g.safetensors";
  write_json(folder_ / "gptq_model-4bit-32g.safetensors.index.json", Value(Table{{"weight_map", map}}));
  write_safetensors(folder_ / "other.safetensors", Parts());
  EXPECT_TRUE(executed().equals(expected)) << "the list names the files";
  std::filesystem::remove(folder_ / "gptq_model-4bit-32g.safetensors.index.json");
  EXPECT_THAT(error_of([&] { executed(); }), HasSubstr("nor one other file .safetensors alone"));
}

Parts without(Parts parts, std::string_view end) {
  std::erase_if(parts, [&](const auto& part) { return part.first.ends_with(end); });
  return parts;
}

TEST_F(QuantizedFolder, RefusesDamagedIntegersOfGptq) {
  const Table json = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}};
  const Parts stored = tensors_by(gptq_encoder({4, 32, {}})).second;
  EXPECT_THAT(refusal(json, without(stored, "0.mlp.up_proj.qzeros")),
              HasSubstr("there is no tensor model.layers.0.mlp.up_proj.qzeros"));
  EXPECT_THAT(refusal(json, without(stored, "0.mlp.up_proj.scales")),
              HasSubstr("there is no tensor model.layers.0.mlp.up_proj.scales"));
  const auto with = [&](const char* key, const Value& value) {
    Table other = json;
    other[key] = value;
    return refusal(other, stored);
  };
  EXPECT_THAT(with("group_size", 40), HasSubstr("has 96 inputs, expected a multiple of the group_size, 40"));
  EXPECT_THAT(with("group_size", 16), HasSubstr("qzeros has shape [3, 8], expected [6, 8]"));
  EXPECT_THAT(with("bits", 5), HasSubstr("\"bits\" is 5: expected 2, 3, 4 or 8"));
  EXPECT_THAT(with("checkpoint_format", "marlin"), HasSubstr("expected gptq or gptq_v2"));
  EXPECT_THAT(
      with("quant_method", "hqq"),
      HasSubstr("networks of the quant_method \"hqq\" are not supported; read are auto-round, awq, "));
  Parts changed = stored;
  for (auto& [name, tensor] : changed) {
    if (name.ends_with(".g_idx")) (tensor = tensor.clone()).values<int32_t>()[3] = 9;
  }
  EXPECT_THAT(refusal(json, changed), HasSubstr(".g_idx has the group 9, expected 0 to "));
  write({}, stored);
  EXPECT_THAT(error_of([&] { read_language_folder(folder_); }), HasSubstr("the network has no place for"));
  write_json(folder_ / "quantize_config.json", Value(Table{{"bits", 4}, {"group_size", 32}}));
  EXPECT_EQ(error_of([&] { read_language_folder(folder_); }), "") << "older folders have a file for that";
}

TEST_F(QuantizedFolder, IsRefusedWhereItsFamilyStoresInputsAsRows) {
  const Table gptq = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}};
  write(gptq, tensors_by(gptq_encoder({4, 32, {}})).second);
  write_json(folder_ / "config.json", Value(Table{{"model_type", "gpt2"},
                                                  {"vocab_size", 61},
                                                  {"n_embd", 64},
                                                  {"n_layer", 2},
                                                  {"n_head", 2},
                                                  {"quantization_config", gptq}}));
  EXPECT_THAT(
      error_of([&] { read_language_folder(folder_); }),
      HasSubstr("networks of the family \"gpt2\", whose weights are stored as [in, out], are not supported"));
}

TEST_F(QuantizedFolder, MayHaveBiasesOfZerosThatNoLayerHas) {
  const Table json = {{"quant_method", "auto-round"}, {"bits", 4}, {"group_size", 32}};
  Parts stored = tensors_by(gptq_encoder({4, 32, {}})).second;
  stored.emplace_back("model.layers.0.mlp.up_proj.bias", Tensor(DType::kFloat16, {96}));
  EXPECT_EQ(refusal(json, stored), "");
  stored.back().second = to_dtype(Tensor::from<float>({96}, std::vector<float>(96, 0.5F)), DType::kFloat16);
  EXPECT_THAT(refusal(json, stored),
              HasSubstr("the network has no place for model.layers.0.mlp.up_proj.bias"));
  Table other = json;
  other["packing_format"] = "auto_round:marlin";
  EXPECT_THAT(refusal(other, stored), HasSubstr("expected auto_round:auto_gptq or auto_round:auto_awq"));
}

/// AutoAWQ's order of outputs in a word, from its low bits on.
constexpr std::array<size_t, 8> kOrder = {0, 2, 4, 6, 1, 3, 5, 7};

/// Numbers [rows, columns], eight neighbours of a row in a word.
Tensor awq_words(const std::vector<uint32_t>& numbers, int64_t columns) {
  std::vector<int32_t> words;
  for (size_t i = 0; i < numbers.size(); i += kOrder.size()) {
    uint32_t word = 0;
    for (size_t j = 0; j < kOrder.size(); ++j) word |= numbers[i + kOrder[j]] << (4 * j);
    words.push_back(static_cast<int32_t>(word));
  }
  return Tensor::from<int32_t>({std::ssize(numbers) / columns, columns / 8}, words);
}

TEST_F(QuantizedFolder, HasIntegersOfAwq) {
  const auto encoder = [](std::optional<uint32_t> zero) {
    return [=, draws = Draws()](const std::string& stem, int64_t out, int64_t in) mutable {
      Integers matrix{out, in, 4, 16};
      matrix.fill(draws, zero);
      EncodedMatrix encoded{{{stem + ".qweight", awq_words(transposed_list(matrix.codes, in), out)},
                             {stem + ".scales", narrow(DType::kFloat16, {matrix.groups(), out},
                                                       transposed_list(matrix.scales, matrix.groups()))}},
                            matrix.weights()};
      if (!zero)
        encoded.parts.emplace_back(stem + ".qzeros",
                                   awq_words(transposed_list(matrix.zeros, matrix.groups()), out));
      return encoded;
    };
  };
  Table json = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 16}, {"version", "gemm"}};
  expect_exact(json, encoder({}), 9);
  const Parts stored = tensors_by(encoder(8)).second;
  EXPECT_THAT(refusal(json, stored), HasSubstr("there is no tensor model.layers.0.mlp.down_proj.qzeros"));
  json["zero_point"] = false;
  expect_exact(json, encoder(8), 7);
  json["version"] = "gemv";
  EXPECT_THAT(refusal(json, stored), HasSubstr("\"version\" is \"gemv\": expected gemm"));
}

}  // namespace
}  // namespace detent
