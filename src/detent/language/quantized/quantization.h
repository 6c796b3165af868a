#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/graph.h"
#include "detent/language/quantized/stored_matrix.h"

namespace detent {

class ConfigReader;     // families/config_reader.h
struct LanguageFamily;  // families/families.h

using TensorsByName = std::map<std::string, Tensor, std::less<>>;
using StoredMatrices = std::map<std::string, StoredMatrix, std::less<>>;

/// Tensors of a folder, of which a method takes the parts of quantized matrices. Throws Error naming folder
/// and tensor.
class FolderParts {
 public:
  FolderParts(TensorsByName& tensors, std::string where) : tensors_(tensors), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  bool has(const std::string& name) const { return tensors_.contains(name); }
  const Tensor& get(const std::string& name) const;
  Tensor take(const std::string& name);
  /// Throws Error unless it has one of these types.
  Tensor take(const std::string& name, std::initializer_list<DType> types);
  std::optional<Tensor> take_if(const std::string& name);
  /// Names that end so, without that end.
  std::vector<std::string> stems(std::string_view end) const;
  /// Leaves out tensors whose names end so.
  void drop(std::initializer_list<std::string_view> ends);
  /// Throws Error where a matrix of one of these types is left: nothing scales it. `scale` says what is
  /// missing.
  void expect_none_left(std::initializer_list<DType> types, std::string_view scale) const;
  void expect_shape(const std::string& name, const Shape& given, const Shape& expected) const;

 private:
  TensorsByName& tensors_;
  std::string where_;
};

/// How a folder stores its matrices, by the quant_method of its quantization_config.
struct QuantizationMethod {
  std::string name;
  /// In a line, what is stored and what of it is not applied. Throws Error on what is not read.
  std::string (*describe)(const ConfigReader& json);
  StoredMatrices (*take)(const ConfigReader& json, FolderParts& parts);
};

QuantizationMethod auto_round_method();
QuantizationMethod awq_method();
QuantizationMethod bitsandbytes_method();
QuantizationMethod compressed_tensors_method();
QuantizationMethod fbgemm_fp8_method();
QuantizationMethod fp8_method();
QuantizationMethod gptq_method();
QuantizationMethod modelopt_method();

/// Whether it is what the family's own tensors have (MXFP4 of GPT-OSS).
bool is_quantization_of(const LanguageFamily& family, const ConfigReader& json);

std::span<const QuantizationMethod> all_quantization_methods();
/// Throws Error naming the method where it is not read.
const QuantizationMethod& find_quantization_method(const ConfigReader& json);

/// The quantization_config of a folder's config.json; of older folders quantize_config.json (GPTQ),
/// hf_quant_config.json (modelopt) or quant_config.json (AWQ).
std::optional<Table> quantization_of_folder(const std::filesystem::path& folder, const Value& config);

// Parts of several methods.

inline constexpr int64_t kWholeSide = int64_t{1} << 40;  // side of a block that is all of the matrix

/// Scales of any type as float32; bytes are exponents of two, plus 127.
Tensor float32_scales(const Tensor& scales, const std::string& where);
/// Scales as a matrix [rows of blocks, blocks of a row]; one scale may have any rank, and one a row may be a
/// vector.
Tensor grid_of_scales(const FolderParts& parts, const std::string& name, const Tensor& scales,
                      const Shape& expected);
/// Floats or integers of a byte times scales [1] or [rows of blocks, blocks of a row], of blocks of that
/// size; integers may have zero points.
StoredMatrix scaled_bytes(FolderParts& parts, const std::string& weight, const std::string& scale,
                          const Shape& block);
/// FP4, two codes a byte, the first in the low half. The scale of a block is divided by `divisor`.
StoredMatrix scaled_nibbles(FolderParts& parts, const std::string& codes, const std::string& scale,
                            int64_t group, float divisor);

// Rounding of what a matrix [out, in] multiplies, values [N, tokens, in].

/// To float8_e4m3fn times the only number of a tensor of the folder, which is taken.
QuantSpec float8_by_scale(FolderParts& parts, const std::string& scale);
/// To float8_e4m3fn times a scale of each `group` inputs of a token, by their largest magnitude. Throws Error
/// naming the matrix where a token has no whole number of such groups.
QuantSpec float8_of_tokens(const FolderParts& parts, const std::string& matrix, int64_t inputs,
                           int64_t group);
enum class TensorScale { kFactor, kDivisor };

/// To NVFP4 in blocks of a token, by the only number of a tensor of the folder, which is taken: the scale of
/// all blocks, or 1 over it.
QuantSpec nvfp4_by_scale(FolderParts& parts, const std::string& scale, TensorScale kind);
/// To integers times the number of `scale`, minus that of `zero` where there is such a tensor.
QuantSpec integers_by_scale(FolderParts& parts, int64_t bits, const std::string& scale,
                            const std::string& zero);

/// Rounds the inputs of each layer whose weight, by its name (language_weights.h), has a rounding.
void round_inputs(Graph& graph,
                  const std::function<std::optional<QuantSpec>(const std::string& weight)>& rounding);

}  // namespace detent
