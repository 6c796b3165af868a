#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"

namespace detent {

/// One scale for each block of a matrix, and the zero point that is subtracted from its codes first.
struct ScaleGrid {
  Tensor scales;  // float32 [rows of blocks, blocks of a row]
  std::optional<Tensor> zeros = {};
};

/// Scales of a matrix's blocks by which a decoder keeps its codes (WeightScales), rows as in the matrix.
struct StoredScales {
  int64_t group = 0;
  Tensor scales;  // [rows, blocks of a row]
  std::optional<Tensor> minimums = {};
  bool are_float8 = false;
  std::vector<float> table = {};
  std::vector<int32_t> block_of = {};  // as in StoredMatrix
};

/// Codes: small integers, float8_e4m3fn, one of 16 numbers, or other floats.
enum class CodeKind { kIntegers, kFloat8, kIndices, kFloats };

/// A matrix [out, in] whose weights are (code - zero) * scale in float32, each operation rounded. Its parts
/// stay in the file.
struct StoredMatrix {
  Shape shape;
  CodeKind kind = CodeKind::kFloats;
  int64_t block_rows = 1;
  int64_t block_columns = 1;
  /// Codes of the rows [begin, end), as floats. Several threads call it.
  std::function<void(int64_t begin, int64_t end, float* codes)> codes;
  std::function<ScaleGrid()> grid;
  /// Block of each input, where blocks are not of neighbours; else empty.
  std::vector<int32_t> block_of = {};
  std::vector<float> table = {};  // of indices
  std::vector<Tensor> parts = {};
  std::optional<QuantSpec> inputs = {};  // how what the matrix multiplies is rounded

  /// All weights, with all threads. Pages of the parts are released.
  Tensor values() const;
  Tensor rows(std::span<const int64_t> indices) const;
  /// nullopt where a decoder cannot keep the codes.
  std::optional<StoredScales> scales() const;

 private:
  void decode(const ScaleGrid& given, int64_t begin, int64_t end, float* weights) const;
  Tensor scales_of_rows(const ScaleGrid& given) const;
};

}  // namespace detent
