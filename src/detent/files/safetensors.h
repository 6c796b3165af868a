#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"

namespace detent {

/// A safetensors file: 8 bytes with the header's length (little endian), a JSON header {"name": {"dtype",
/// "shape", "data_offsets": [begin, end]}, "__metadata__": {...}} padded with spaces to 8 bytes, then the
/// tensors' bytes.
///
/// Files that Detent writes have checksums, under "detent.crc32" in the metadata: hexadecimal CRC-32 of 8
/// digits each, first of the length and the header, in which the digits count as zeros, then of each tensor's
/// bytes, in the order of the header. Those of the header are checked whenever such a file is opened.
struct SafetensorsFile {
  /// In the order of the header.
  std::vector<std::pair<std::string, Tensor>> tensors;
  std::map<std::string, std::string> metadata = {};  // without the checksums
  std::vector<uint32_t> checksums = {};  // of the tensors; empty in files of others and older ones
};

/// Whether the tensors are compared with their checksums when the file is read, which costs a pass over their
/// bytes (about 7 GB/s once they are in memory), or by the caller, before it uses one (check_tensor).
enum class TensorCheck { kNow, kLater };

/// Throws Error naming file and tensor where `tensor` does not have the CRC-32 `checksum`.
void check_tensor(const Tensor& tensor, uint32_t checksum, const std::string& file, const std::string& name);

/// Maps the file: tensors borrow from the mapping and keep it alive, except those that the file does not
/// align to their element size, which are copied. Dtypes: BOOL U8 I8 I16 I32 I64 F8_E4M3 F8_E5M2 F16 BF16 F32
/// F64. Throws Error naming the file, and the tensor where there is one, on a header of more than 100 MB or
/// that is not such JSON, a duplicate name, another dtype, a size that does not fit the shape, on data that
/// overlap, leave a hole or end elsewhere than the file, and on what does not have its checksum.
SafetensorsFile read_safetensors(const std::filesystem::path& path, TensorCheck check = TensorCheck::kNow);

/// Header, checked as `read_safetensors` does; dtypes that it refuses, or reads as bytes, keep
/// the header's name.
struct SafetensorsSummary {
  std::vector<TensorSummary> tensors;
  std::map<std::string, std::string> metadata;
};
SafetensorsSummary summarize_safetensors(const std::filesystem::path& path);

/// A tensor to write.
struct TensorEntry {
  std::string name;
  DType dtype;
  Shape shape;
};

/// Writes a file tensor by tensor, so that one at a time need be in memory. Names stand in the given order in
/// the header; the data are sorted by falling element size, so that each tensor is aligned.
class SafetensorsWriter {
 public:
  /// Writes the header, in which the checksums follow when they are known. Throws Error on a duplicate or
  /// reserved name and on text that is not UTF-8.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorEntry> entries,
                    const std::map<std::string, std::string>& metadata = {});

  /// Indices of the entries in the order in which `write` takes their tensors.
  const std::vector<size_t>& order() const { return order_; }
  /// The next tensor of the order, with the dtype and shape of its entry.
  void write(const Tensor& tensor);
  /// After all tensors: the file appears.
  void commit();

 private:
  std::vector<TensorEntry> entries_;
  std::vector<size_t> order_;
  std::string header_;
  AtomicFile file_;
  std::vector<uint32_t> checksums_;
  size_t written_ = 0;
};

/// Writes all tensors at once.
void write_safetensors(const std::filesystem::path& path,
                       std::span<const std::pair<std::string, Tensor>> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace detent
