#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/checkpoints/gguf/gguf_format.h"
#include "detent/checkpoints/gguf/gguf_metadata.h"
#include "detent/core/tensor.h"
#include "detent/files/file.h"

namespace detent {

struct GgufTensor {
  std::string name;
  const GgufFormat* format;
  Shape shape;  // rows first, as everywhere in Detent; the file has the dimensions the other way round
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner;  // keeps the bytes alive
};

/// A GGUF file of version 2 or 3, little endian: metadata, the list of tensors, their bytes at multiples of
/// the alignment. It is mapped; nothing but the metadata and the list has been read, and all of these are
/// checked.
struct GgufFile {
  std::shared_ptr<const MappedFile> mapping;
  uint32_t version = 0;
  uint64_t alignment = 0;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;
  std::span<const std::byte> metadata_bytes = {};  // as the file has them, one entry after the other

  /// nullptr when absent. Takes time linear in the number of tensors.
  const GgufTensor* find(std::string_view name) const;
};

/// Whether a file that begins with these bytes is meant to be one.
bool is_gguf(std::span<const std::byte> bytes);

/// Throws Error naming the file, and key or tensor where there is one, on what is cut off, counts that the
/// file cannot hold, names that occur twice, unknown formats of tensors, and bytes that overlap or end past
/// the file.
GgufFile read_gguf(const std::filesystem::path& path);

/// The file without its tensors: a GGUF file of the same version with the same metadata.
std::string gguf_without_tensors(const GgufFile& file);

/// That of the elements: float32 where they are decoded.
DType gguf_dtype(const GgufTensor& tensor);

/// The elements as the file has them where they are plain numbers, borrowed where they are aligned; else the
/// float32 that the blocks stand for.
Tensor gguf_elements(const GgufTensor& tensor);

/// Rows of a matrix as float32.
Tensor gguf_rows(const GgufTensor& tensor, std::span<const int64_t> rows);

/// Decodes blocks, with all threads, into as many values as the tensor has.
void decode_gguf(const GgufTensor& tensor, std::span<float> values);

/// Scales of a tensor [rows, columns] whose elements are integers of a block times a scale, plus a minimum
/// where the format has one: [rows, columns / group], each of neighbours of a row.
struct GgufScales {
  int64_t group = 0;
  Tensor scales;
  std::optional<Tensor> minimums = {};
};

/// nullopt of formats whose elements are something else, and of tensors that are no matrix.
std::optional<GgufScales> gguf_scales(const GgufTensor& tensor);

}  // namespace detent
