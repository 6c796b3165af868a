#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "detent/core/text_table.h"
#include "detent/formats/measure/distortion.h"
#include "detent/graph_files/packed_tensors.h"

namespace detent {

/// Tensors of a .safetensors file, packed ones included, the parameters of a graph (packed ones decoded),
/// those of a checkpoint of PyTorch (.pt, .pth, .th, .ckpt), of a GGUF file, of a .npz file, or of a .npy
/// file, there one with the file's name. The elements stay in the mapped file until they are used.
struct TensorFile {
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

TensorFile read_tensor_file(const std::filesystem::path& path);

/// Writes entries[i] with the elements load(i), one tensor at a time, codes made in `scratch`. A .npy file
/// takes one tensor, unpacked. Throws UsageError on another extension than .safetensors and .npy.
void write_tensor_file(const std::filesystem::path& path, const std::vector<PackedEntry>& entries,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<Tensor(size_t)>& load, const Scratch& scratch);
/// For what is made of tensors: beside `output`, or, where that is empty, in the directory for temporary
/// files.
Scratch scratch_beside(const std::filesystem::path& output);
/// The same check, before there is something to write.
void check_tensor_file_name(const std::filesystem::path& path, bool packed);

DType stored_dtype(const StoredTensor& tensor);
const Shape& stored_shape(const StoredTensor& tensor);
/// The elements as float32, in `scratch` unless that is what is stored.
Tensor float_values(const StoredTensor& tensor, const Scratch& scratch);

/// Whether a name matches --tensors: a regular expression (ECMAScript) that matches a part of it. An empty
/// one matches all.
class NameFilter {
 public:
  /// Throws UsageError on text that is no regular expression.
  explicit NameFilter(const std::string& expression);
  bool matches(const std::string& name) const { return matches_(name); }

 private:
  std::function<bool(const std::string&)> matches_;
};

/// Columns and cells of error measures, for tables of tensors.
std::vector<std::string> distortion_columns();
std::vector<std::string> distortion_cells(const Distortion& distortion);

}  // namespace detent
