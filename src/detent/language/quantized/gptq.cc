#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/quantized/integer_words.h"
#include "detent/language/quantized/quantization.h"

namespace detent {
namespace {

// GPTQ and AWQ: integers with a zero point and a float16 scale of each group of inputs. Inputs are rows:
// qweight is [in, out], of which GPTQ packs columns and AWQ rows, as both do with qzeros [groups, out];
// scales are [groups, out].

constexpr int64_t kWordBits = 32;

struct GroupedIntegers {
  int64_t bits = 4;
  int64_t group = 0;  // -1: all inputs
};

GroupedIntegers integers_of_json(const ConfigReader& json) {
  constexpr int64_t kUsualGroup = 128;
  constexpr int64_t kMostGroup = int64_t{1} << 20;
  GroupedIntegers found;
  found.bits = json.integer("bits", json.integer("w_bit", 4));
  const char* const group = json.has("q_group_size") ? "q_group_size" : "group_size";
  found.group = json.integer(group, kUsualGroup);
  if (found.group != -1 && (found.group < 2 || found.group > kMostGroup))
    json.refuse(group, "expected -1 or a number from 2 on");
  return found;
}

std::string groups_text(const GroupedIntegers& integers) {
  return integers.group == -1 ? "output" : fmt::format("{} inputs", integers.group);
}

/// The size of a group of so many inputs.
int64_t checked_group(const FolderParts& parts, const std::string& name, int64_t inputs,
                      const GroupedIntegers& integers) {
  const int64_t group = integers.group == -1 ? inputs : integers.group;
  if (inputs < 1 || inputs % group != 0)
    fail("{}: {} has {} inputs, expected a multiple of the group_size, {}", parts.where(), name, inputs,
         group);
  return group;
}

/// Zero points of GPTQ's files are stored less one, in as many bits.
bool are_less_one(const ConfigReader& json) {
  const std::string format = json.text("checkpoint_format", "gptq");
  if (format != "gptq" && format != "gptq_v2")
    json.refuse("checkpoint_format", "expected gptq or gptq_v2, whose words all kernels can read");
  return format == "gptq";
}

std::string describe_gptq(const ConfigReader& json) {
  const GroupedIntegers integers = integers_of_json(json);
  if (integers.bits != 2 && integers.bits != 3 && integers.bits != 4 && integers.bits != 8)
    json.refuse(json.has("bits") ? "bits" : "w_bit", "expected 2, 3, 4 or 8");
  static_cast<void>(are_less_one(json));
  const std::string order = json.boolean("desc_act", false) ? ", grouped in another order" : "";
  return fmt::format("gptq: {}-bit integers with a zero point and a scale of each {}{}", integers.bits,
                     groups_text(integers), order);
}

StoredMatrix gptq_matrix(const ConfigReader& json, FolderParts& parts, const std::string& stem) {
  const GroupedIntegers integers = integers_of_json(json);
  const int64_t bits = integers.bits;
  const Tensor words = parts.take(stem + ".qweight", {DType::kInt32});
  const Tensor zeros = parts.take(stem + ".qzeros", {DType::kInt32});
  const Tensor scales = parts.take(stem + ".scales", {DType::kFloat16, DType::kBFloat16, DType::kFloat32});
  if (words.rank() != 2 || words.numel() == 0)
    fail("{}: {}.qweight has shape {}, expected a matrix", parts.where(), stem, shape_text(words.shape()));
  const Shape shape = {words.dim(1), words.dim(0) * kWordBits / bits};
  const int64_t group = checked_group(parts, stem + ".qweight", shape[1], integers);
  const int64_t groups = shape[1] / group;
  parts.expect_shape(stem + ".qweight", words.shape(), {words_of(shape[1], bits), shape[0]});
  parts.expect_shape(stem + ".qzeros", zeros.shape(), {groups, words_of(shape[0], bits)});
  parts.expect_shape(stem + ".scales", scales.shape(), {groups, shape[0]});
  std::vector<int32_t> order;
  if (const auto numbers = parts.take_if(stem + ".g_idx"))
    order = blocks_of_inputs(parts, stem + ".g_idx", *numbers, shape[1], group, groups);
  // Codes of 8 bits count from the middle, so that they fit a signed byte.
  constexpr int64_t kByte = 8;
  constexpr float kMiddle = 128;
  const float offset = bits == kByte ? kMiddle : 0;
  return {.shape = shape,
          .kind = CodeKind::kIntegers,
          .block_rows = 1,
          .block_columns = group,
          .codes =
              [=](int64_t begin, int64_t end, float* to) {
                for (int64_t row = begin; row < end; ++row, to += shape[1]) {
                  read_codes(words.values<int32_t>().data() + row, shape[0], bits, shape[1], to);
                  for (int64_t i = 0; i < shape[1]; ++i) to[i] -= offset;
                }
              },
          .grid =
              [=, less_one = are_less_one(json)] {
                Tensor codes(DType::kFloat32, {groups, shape[0]});
                for (int64_t i = 0; i < groups; ++i)
                  read_codes(zeros.rows(i, i + 1).values<int32_t>().data(), 1, bits, shape[0],
                             codes.rows(i, i + 1).values<float>().data());
                const float codes_of_bits = static_cast<float>(1U << bits);
                for (float& zero : codes.values<float>()) {
                  if (less_one) zero = zero + 1 == codes_of_bits ? 0 : zero + 1;
                  zero -= offset;
                }
                return ScaleGrid{float32_transposed(scales), float32_transposed(codes)};
              },
          .block_of = std::move(order),
          .parts = {words, zeros, scales}};
}

StoredMatrices take_gptq(const ConfigReader& json, FolderParts& parts) {
  StoredMatrices matrices;
  for (const std::string& stem : parts.stems(".qweight"))
    matrices.emplace(stem + ".weight", gptq_matrix(json, parts, stem));
  return matrices;
}

// AWQ

constexpr int64_t kNibblesOfWord = 8;

std::string describe_awq(const ConfigReader& json) {
  const GroupedIntegers integers = integers_of_json(json);
  if (integers.bits != 4) json.refuse(json.has("bits") ? "bits" : "w_bit", "expected 4");
  const char* const key = json.has("version") ? "version" : "format";
  const std::string version = json.text(key, "gemm");
  if (version != "gemm" && version != "GEMM") json.refuse(key, "expected gemm");
  return fmt::format("awq: 4-bit integers with a zero point and a scale of each {}", groups_text(integers));
}

/// Rows of words of eight neighbours as columns [in, out], of which some rows are wanted.
void read_awq(const Tensor& words, int64_t output, float* codes) {
  constexpr std::array<uint32_t, 8> kShifts = {0, 16, 4, 20, 8, 24, 12, 28};
  const int64_t stride = words.dim(1);
  const int32_t* word = words.values<int32_t>().data() + output / kNibblesOfWord;
  const uint32_t shift = kShifts[static_cast<size_t>(output % kNibblesOfWord)];
  for (int64_t i = 0; i < words.dim(0); ++i, word += stride)
    codes[i] = static_cast<float>(static_cast<uint32_t>(*word) >> shift & 15U);
}

StoredMatrix awq_matrix(const ConfigReader& json, FolderParts& parts, const std::string& stem) {
  constexpr float kMiddleOfNibbles = 8;
  const Tensor words = parts.take(stem + ".qweight", {DType::kInt32});
  const Tensor scales = parts.take(stem + ".scales", {DType::kFloat16, DType::kBFloat16, DType::kFloat32});
  if (words.rank() != 2 || words.numel() == 0)
    fail("{}: {}.qweight has shape {}, expected a matrix", parts.where(), stem, shape_text(words.shape()));
  const Shape shape = {words.dim(1) * kNibblesOfWord, words.dim(0)};
  const int64_t group = checked_group(parts, stem + ".qweight", shape[1], integers_of_json(json));
  const int64_t groups = shape[1] / group;
  parts.expect_shape(stem + ".scales", scales.shape(), {groups, shape[0]});
  std::optional<Tensor> zeros;
  if (json.boolean("zero_point", true)) {
    zeros = parts.take(stem + ".qzeros", {DType::kInt32});
    parts.expect_shape(stem + ".qzeros", zeros->shape(), {groups, words.dim(1)});
  } else {
    parts.drop({stem + ".qzeros"});
  }
  return {.shape = shape,
          .kind = CodeKind::kIntegers,
          .block_rows = 1,
          .block_columns = group,
          .codes =
              [=](int64_t begin, int64_t end, float* to) {
                for (int64_t row = begin; row < end; ++row, to += shape[1]) read_awq(words, row, to);
              },
          .grid =
              [=] {
                Tensor points(DType::kFloat32, {shape[0], groups});
                float* to = points.values<float>().data();
                if (!zeros) std::ranges::fill(points.values<float>(), kMiddleOfNibbles);
                for (int64_t row = 0; zeros && row < shape[0]; ++row, to += groups) read_awq(*zeros, row, to);
                return ScaleGrid{float32_transposed(scales), points};
              },
          .parts = {words, scales}};
}

StoredMatrices take_awq(const ConfigReader& json, FolderParts& parts) {
  StoredMatrices matrices;
  for (const std::string& stem : parts.stems(".qweight"))
    matrices.emplace(stem + ".weight", awq_matrix(json, parts, stem));
  return matrices;
}

/// AutoRound stores one of both.
bool is_packed_as_awq(const ConfigReader& json) {
  const std::string packing = json.text("packing_format", "auto_round:auto_gptq");
  if (packing != "auto_round:auto_gptq" && packing != "auto_round:auto_awq")
    json.refuse("packing_format", "expected auto_round:auto_gptq or auto_round:auto_awq");
  return packing == "auto_round:auto_awq";
}

std::string describe_auto_round(const ConfigReader& json) {
  return "auto-round, as " + (is_packed_as_awq(json) ? describe_awq(json) : describe_gptq(json));
}

StoredMatrices take_auto_round(const ConfigReader& json, FolderParts& parts) {
  return is_packed_as_awq(json) ? take_awq(json, parts) : take_gptq(json, parts);
}

}  // namespace

QuantizationMethod auto_round_method() {
  return {.name = "auto-round", .describe = describe_auto_round, .take = take_auto_round};
}

QuantizationMethod gptq_method() { return {.name = "gptq", .describe = describe_gptq, .take = take_gptq}; }

QuantizationMethod awq_method() { return {.name = "awq", .describe = describe_awq, .take = take_awq}; }

}  // namespace detent
