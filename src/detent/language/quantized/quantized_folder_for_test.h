#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/convert.h"
#include "detent/core/error_of_for_test.h"
#include "detent/files/json.h"
#include "detent/files/safetensors.h"
#include "detent/files/temporary_file_test.h"
#include "detent/inference/integer_executor.h"
#include "detent/language/decoder.h"
#include "detent/language/language_model.h"
#include "detent/language/networks_for_test.h"

namespace detent {

using Parts = std::vector<std::pair<std::string, Tensor>>;

/// Parts of a matrix in a folder, and its weights by the method's formula.
struct EncodedMatrix {
  Parts parts;
  Tensor weights;
};

/// Numbers that follow from a seed.
class Draws {
 public:
  uint32_t below(uint32_t count) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<uint32_t>(state_ >> 33U) % count;
  }
  /// 0.01 to 0.02, as float16 holds it.
  float scale() { return float16_to_float(float_to_float16(0.01F + static_cast<float>(below(100)) * 1e-4F)); }

 private:
  uint64_t state_ = 5;
};

/// `encode(stem, out, in)` gives a matrix.
using Encode = std::function<EncodedMatrix(const std::string&, int64_t, int64_t)>;

/// The spec of what a matrix of so many inputs multiplies.
using InputsRounding = std::function<std::string(int64_t inputs)>;

inline InputsRounding float8_of_groups(int64_t group) {
  return [group](int64_t inputs) {
    return fmt::format("scaled:element=fp8_e4m3fn,granularity=group,axis=1,group_size={}",
                       std::min(group, inputs));
  };
}

/// The same matrix with further parts, each of one number.
inline Encode with_numbers(const Encode& encode, const Parts& numbers) {
  return [=](const std::string& stem, int64_t out, int64_t in) {
    EncodedMatrix encoded = encode(stem, out, in);
    for (const auto& [end, number] : numbers) encoded.parts.emplace_back(stem + end, number);
    return encoded;
  };
}

inline Tensor one_number(float value) { return Tensor::from<float>({1}, std::vector<float>{value}); }

inline Table json_of_network() {
  return {{"model_type", "llama"},
          {"vocab_size", 61},
          {"hidden_size", 64},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 1},
          {"head_dim", 32},
          {"intermediate_size", 96},
          {"max_position_embeddings", 512},
          {"tie_word_embeddings", false}};
}

class QuantizedFolder : public testing::Test {
 protected:
  QuantizedFolder() { std::filesystem::create_directories(folder_); }

  void write(const std::optional<Table>& quantization, const Parts& parts) {
    Table json = json_of_network();
    if (quantization) json["quantization_config"] = *quantization;
    write_json(folder_ / "config.json", Value(json));
    write_safetensors(folder_ / "model.safetensors", parts);
  }

  /// Tensors of the folder: norms and tables as they are, matrices of layers by `encode`.
  static std::pair<Parts, Parts> tensors_by(const Encode& encode) {
    const std::pair<const char*, Shape> matrices[] = {
        {"self_attn.q_proj", {64, 64}}, {"self_attn.k_proj", {32, 64}}, {"self_attn.v_proj", {32, 64}},
        {"self_attn.o_proj", {64, 64}}, {"mlp.gate_proj", {96, 64}},    {"mlp.up_proj", {96, 64}},
        {"mlp.down_proj", {64, 96}}};
    WeightsForTest weights;
    Parts plain;
    for (const char* const table : {"model.embed_tokens.weight", "lm_head.weight"})
      plain.emplace_back(table, weights.of_stored(table, {61, 64}));
    plain.emplace_back("model.norm.weight", weights.of_stored("model.norm.weight", {64}));
    for (int layer = 0; layer < 2; ++layer) {
      for (const char* const norm : {"input_layernorm", "post_attention_layernorm"}) {
        const std::string name = fmt::format("model.layers.{}.{}.weight", layer, norm);
        plain.emplace_back(name, weights.of_stored(name, {64}));
      }
    }
    Parts stored = plain;
    for (int layer = 0; layer < 2; ++layer) {
      for (const auto& [name, shape] : matrices) {
        const std::string stem = fmt::format("model.layers.{}.{}", layer, name);
        const EncodedMatrix matrix = encode(stem, shape[0], shape[1]);
        plain.emplace_back(stem + ".weight", matrix.weights);
        stored.insert(stored.end(), matrix.parts.begin(), matrix.parts.end());
      }
    }
    return {plain, stored};
  }

  Tensor decoded(int64_t& bytes) const {
    LanguageModel model = read_folder_model(folder_);
    const Decoder decoder(std::move(model.graph), model.weights);
    bytes = decoder.weight_bytes();
    SequenceCache cache = decoder.start();
    return decoder.run(cache, kTokens, WantedLogits::kOfAllTokens);
  }

  /// With `rounding`, inputs of the matrices of layers are rounded so besides.
  Tensor executed(const InputsRounding& rounding = {}) const {
    const std::vector<Tensor> inputs = {Tensor::from<int64_t>({1, 5}, kTokens),
                                        Tensor::from<int64_t>({1, 5}, std::vector<int64_t>(5, 1))};
    Graph graph = read_language_folder(folder_);
    for (Node& node : graph.nodes()) {
      const Parameter* const weight = node.find_parameter("weight");
      const bool is_matrix = weight != nullptr && weight->tensor.rank() == 2;
      if (rounding && is_matrix && node.name.starts_with("layers_"))
        node.quantization["data_in_0"] =
            QuantizerRef(Quantizer(parse_quant_spec_text(rounding(weight->tensor.dim(1)))));
    }
    return IntegerProgram(graph).run(inputs).front();
  }

  /// The folder gives the bits of one with the weights in float32, and a decoder keeps its codes.
  void expect_exact(const Table& quantization, const Encode& encode, double bits_of_weights,
                    const InputsRounding& rounding = {}) {
    const auto [plain, stored] = tensors_by(encode);
    write({}, plain);
    const Tensor expected = executed(rounding);
    write(quantization, stored);
    EXPECT_TRUE(executed().equals(expected));
    int64_t bytes = 0;
    EXPECT_TRUE(decoded(bytes).reshaped(expected.shape()).equals(expected));
    constexpr int64_t kWeights = int64_t{2} * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64);
    const double others = 64 * 64 * 4 + 960 * 4;  // the head, and biases of all

    EXPECT_LE(static_cast<double>(bytes) - others, bits_of_weights / 8 * kWeights) << "of a decoder";
    EXPECT_FALSE(describe_quantization(folder_).empty());
  }

  std::string refusal(const Table& quantization, const Parts& stored) {
    write(quantization, stored);
    return error_of([&] { read_language_folder(folder_); });
  }

  TemporaryPath temporary_{"quantized_folder"};
  std::filesystem::path folder_ = temporary_.get();
  std::vector<int64_t> kTokens = {5, 7, 1, 60, 3};
};

inline Tensor narrow(DType dtype, const Shape& shape, const std::vector<float>& values) {
  return to_dtype(Tensor::from<float>(shape, values), dtype);
}

/// Codes as a stream of bits in words.
inline std::vector<int32_t> words_of_codes(const std::vector<uint32_t>& codes, uint32_t bits) {
  std::vector<uint32_t> words((codes.size() * bits + 31) / 32);
  for (size_t i = 0; i < codes.size(); ++i) {
    for (uint32_t bit = 0; bit < bits; ++bit) {
      const size_t place = i * bits + bit;
      words[place / 32] |= (codes[i] >> bit & 1U) << place % 32;
    }
  }
  return {words.begin(), words.end()};
}

/// Random codes and zero points of a matrix, and its weights.
struct Integers {
  int64_t out;
  int64_t in;
  uint32_t bits;
  int64_t group;
  std::vector<int32_t> group_of = {};  // of each input
  std::vector<uint32_t> codes = {};    // [out, in]
  std::vector<uint32_t> zeros = {};    // [out, groups]
  std::vector<float> scales = {};      // likewise

  int64_t groups() const { return in / group; }
  void fill(Draws& draws, std::optional<uint32_t> zero) {
    for (int64_t i = 0; i < out * in; ++i) codes.push_back(draws.below(1U << bits));
    for (int64_t i = 0; i < out * groups(); ++i) {
      zeros.push_back(zero.value_or(draws.below(1U << bits)));
      scales.push_back(draws.scale());
    }
    for (int64_t i = 0; i < in; ++i) group_of.push_back(static_cast<int32_t>(i / group));
  }
  Tensor weights() const {
    Tensor result(DType::kFloat32, {out, in});
    for (int64_t i = 0; i < out * in; ++i) {
      const auto at = static_cast<size_t>(i / in * groups() + group_of[static_cast<size_t>(i % in)]);
      const auto code = static_cast<float>(codes[static_cast<size_t>(i)]);
      result.values<float>()[static_cast<size_t>(i)] = (code - static_cast<float>(zeros[at])) * scales[at];
    }
    return result;
  }
  /// Numbers [rows, columns] as words of columns: [words, columns].
  static Tensor packed_columns(const std::vector<uint32_t>& numbers, int64_t columns, uint32_t bits) {
    const int64_t rows = std::ssize(numbers) / columns;
    std::vector<std::vector<int32_t>> all;
    for (int64_t column = 0; column < columns; ++column) {
      std::vector<uint32_t> of_column;
      for (int64_t row = 0; row < rows; ++row)
        of_column.push_back(numbers[static_cast<size_t>(row * columns + column)]);
      all.push_back(words_of_codes(of_column, bits));
    }
    Tensor result(DType::kInt32, {std::ssize(all.front()), columns});
    for (int64_t i = 0; i < result.numel(); ++i)
      result.values<int32_t>()[static_cast<size_t>(i)] =
          all[static_cast<size_t>(i % columns)][static_cast<size_t>(i / columns)];
    return result;
  }
  static Tensor packed_rows(const std::vector<uint32_t>& numbers, int64_t columns, uint32_t bits) {
    std::vector<int32_t> all;
    const int64_t rows = std::ssize(numbers) / columns;
    for (int64_t row = 0; row < rows; ++row) {
      const auto begin = numbers.begin() + row * columns;
      const std::vector<int32_t> words = words_of_codes({begin, begin + columns}, bits);
      all.insert(all.end(), words.begin(), words.end());
    }
    return Tensor::from<int32_t>({rows, std::ssize(all) / rows}, all);
  }
};

template <class T>
std::vector<T> transposed_list(const std::vector<T>& matrix, int64_t columns) {
  std::vector<T> result;
  for (int64_t column = 0; column < columns; ++column) {
    for (auto i = static_cast<size_t>(column); i < matrix.size(); i += static_cast<size_t>(columns))
      result.push_back(matrix[i]);
  }
  return result;
}

/// Scales of blocks: exponents; or float8_e4m3fn, divided by a number of the matrix (compressed-tensors) or
/// times one (modelopt).
enum class NibbleScales { kExponents, kDivided, kMultiplied };

/// Two FP4 codes a byte, the first in the low half.
inline Encode nibble_encoder(int64_t group, NibbleScales kind) {
  return [=, draws = Draws()](const std::string& stem, int64_t out, int64_t in) mutable {
    constexpr std::array<float, 8> kSizes = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
    constexpr float kOfMatrix = 0.37F;
    const bool are_exponents = kind == NibbleScales::kExponents;
    Tensor bytes(DType::kUInt8, {out, in / 2});
    Tensor scales(are_exponents ? DType::kUInt8 : DType::kFloat8E4M3, {out, in / group});
    for (std::byte& scale : scales.bytes())
      scale = static_cast<std::byte>(are_exponents ? 120 + draws.below(4) : 16 + draws.below(32));
    const Tensor floats = to_float32(scales);
    Tensor weights(DType::kFloat32, {out, in});
    for (int64_t i = 0; i < out * in; ++i) {
      const uint32_t code = draws.below(16);
      auto& byte = bytes.values<uint8_t>()[static_cast<size_t>(i / 2)];
      byte = static_cast<uint8_t>(byte | code << (i % 2 == 0 ? 0U : 4U));
      const auto block = static_cast<size_t>(i / group);
      float scale = floats.values<float>()[block];
      if (are_exponents) scale = std::ldexp(1.0F, std::to_integer<int>(scales.bytes()[block]) - 127);
      if (kind == NibbleScales::kDivided) scale /= kOfMatrix;
      if (kind == NibbleScales::kMultiplied) scale *= kOfMatrix;
      const float size = kSizes[code & 7U] * scale;
      weights.values<float>()[static_cast<size_t>(i)] = (code & 8U) != 0 ? -size : size;
    }
    const bool is_modelopt = kind == NibbleScales::kMultiplied;
    EncodedMatrix encoded{
        {{stem + (is_modelopt ? ".weight" : ".weight_packed"), bytes}, {stem + ".weight_scale", scales}},
        weights};
    if (!are_exponents)
      encoded.parts.emplace_back(stem + (is_modelopt ? ".weight_scale_2" : ".weight_global_scale"),
                                 Tensor::from<float>({1}, std::vector<float>{kOfMatrix}));
    return encoded;
  };
}

}  // namespace detent
