#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/files/file.h"

namespace detent {

/// Description of a tensor in a file, without its elements.
struct TensorSummary {
  std::string name;
  std::string dtype;  // numpy's name or, where Detent cannot read it, the file's
  Shape shape;
  uint64_t byte_size = 0;
};

/// Maps a NumPy .npy file (versions 1 to 3): a header that is a Python dictionary literal, then the elements,
/// little endian, in C or Fortran order. The tensor borrows from the mapping and keeps it alive, except where
/// the file does not align it or holds several dimensions in Fortran order, of which it is a copy. Dtypes:
/// bool, int8 to int64, uint8, float16, float32, float64; uint16 and uint32 become the next larger signed
/// type, uint64 int64; big-endian elements are copied in the other order. Throws Error naming the file on
/// another dtype, on integers beyond int64, and on data that are shorter or longer than the shape says.
Tensor read_npy(const std::filesystem::path& path);
/// The same for bytes kept alive by `owner`; `name` begins the messages.
Tensor parse_npy(std::span<std::byte> bytes, const std::shared_ptr<const void>& owner,
                 const std::string& name);

/// Unsigned integers of 16, 32 or 64 bits, given as the signed ones with the same bits, in the next larger
/// type; 64 bits stay int64. Throws Error, beginning with `name`, on larger ones than int64 holds.
Tensor unsigned_elements(const Tensor& bits, const std::string& name);

/// Enough bytes for the header of every supported array.
inline constexpr size_t kNpyPrefixBytes = size_t{1} << 16;

/// From the header alone. `prefix` holds the first bytes of a file of `file_size` bytes, kNpyPrefixBytes if
/// available. Throws Error, beginning with `name`, on headers that `parse_npy` refuses.
TensorSummary summarize_npy(std::span<const std::byte> prefix, uint64_t file_size, const std::string& name);

/// Writes an array piece by piece, in C order: version 1 or, for a header of more than 64 kB, 2. Without
/// `commit` there is no file. Throws Error on bfloat16, which NumPy does not have.
class NpyWriter {
 public:
  NpyWriter(const std::filesystem::path& path, DType dtype, const Shape& shape);

  /// The next elements, of the array's dtype; in total as many as the shape has.
  void append(const Tensor& elements);
  void commit();

 private:
  AtomicFile file_;
  uint64_t left_;  // bytes
};

/// NpyWriter in one call.
void write_npy(const std::filesystem::path& path, const Tensor& tensor);

/// The arrays of a NumPy .npz file, a zip archive of .npy files, stored (numpy.savez) or deflated
/// (savez_compressed); names without ".npy", in the order of the archive. Stored arrays borrow from the
/// mapped file as `read_npy` does; deflated ones are unpacked. Throws Error naming the
/// file and the array on what `read_npy` refuses, a damaged archive or array, and entries that are not .npy.
std::vector<std::pair<std::string, Tensor>> read_npz(const std::filesystem::path& path);

/// Reads only the headers.
std::vector<TensorSummary> summarize_npz(const std::filesystem::path& path);

/// A table of finite numbers as the nearest float32 [rows, columns], which is 0 below its range: fields
/// separated by commas, lines by LF or CRLF, the same number of fields in each. The first line is skipped as
/// a header when none of its fields is a number; there is no quoting. Throws Error naming file, line and
/// column of the first field that is no number or beyond float32, and when nothing is left.
Tensor read_csv(const std::filesystem::path& path);

}  // namespace detent
