#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "detent/checkpoints/gguf/gguf_file.h"
#include "detent/files/safetensors.h"
#include "detent/files/scratch.h"
#include "detent/formats/packing/encode.h"
#include "detent/graph/graph.h"

namespace detent {

/// A tensor as a file holds it: its elements, codes, or blocks of a GGUF file.
struct StoredTensor {
  /// A tensor of the file that belongs to this one, to be compared with its checksum when it is used: of a
  /// large file perhaps a few tensors are.
  struct Part {
    std::string file;
    std::string name;
    Tensor tensor;
    uint32_t checksum;
  };

  std::string name;
  std::variant<Tensor, Encoded, GgufTensor> content;
  std::vector<Part> unchecked = {};
};

/// The elements; codes and blocks are decoded, into `scratch`. Throws Error naming the tensor, and the file
/// where a checksum differs.
Tensor stored_values(const StoredTensor& tensor, const Scratch& scratch);

/// Packed tensors in a safetensors file: the streams of `w` are the tensors "w.codes" (U8) and, where the
/// format needs parameters, "w.scales", ...; the metadata key "detent.packed.w" holds what they mean, as
/// JSON:
/// {"format": "ternary:scaling_factor=true", "shape": [2, 3], "packing": "bits"}. Codes that safetensors has
/// a dtype for (F8_E4M3, F8_E5M2, F16, BF16) are a tensor "w" of that dtype, which others can read; older
/// files have them in "w.codes" too. Tensors without such a key are ordinary. Throws Error, beginning with
/// `where`, on metadata that are not so and on streams that are missing or do not fit. Nothing is decoded
/// yet.
std::vector<StoredTensor> unpack_tensors(const SafetensorsFile& file, const std::string& where);

/// Adds tensors and metadata of `encoded` under this name: its tensors and its entry of the metadata are
/// added.
void add_packed(const std::string& name, const Encoded& encoded,
                std::vector<std::pair<std::string, Tensor>>& tensors,
                std::map<std::string, std::string>& metadata);

/// The metadata of `file` that do not describe packed tensors.
std::map<std::string, std::string> plain_metadata(const SafetensorsFile& file);

/// How one tensor is going to be written: as it is or, with a spec, packed.
struct PackedEntry {
  std::string name;
  DType dtype;
  Shape shape;
  std::optional<QuantSpec> spec = std::nullopt;
  Packing packing = Packing::kBits;
};

/// Writes such a file. `load(i)` gives the tensor of entries[i] (float32 when packed) and may be called more
/// than once, since safetensors orders data by element size. Codes are made in `scratch`, of one tensor at a
/// time.
void write_packed_tensors(const std::filesystem::path& path, const std::vector<PackedEntry>& entries,
                          const std::map<std::string, std::string>& metadata,
                          const std::function<Tensor(size_t)>& load, const Scratch& scratch);

/// A graph, and the codes of its quantized parameters.
struct PackedWeights {
  /// As it was given, but: formats that would derive other parameters from the values of the codes give those
  /// that these were rounded with.
  Graph graph;
  /// By the first byte of the parameter in `graph`; what shares storage is there once.
  std::map<const std::byte*, Encoded> codes;
  /// Parameters that have a format and stay float32, and why, a line each.
  std::vector<std::string> left;
};

/// Packs every parameter of which it can prove, to the last bit, that nothing changes: decoding gives what
/// the simulation makes of the float32 values, and quantizing that again, as the graph does each time it
/// runs, leaves it as it is.
PackedWeights pack_weights(const Graph& graph);

}  // namespace detent
