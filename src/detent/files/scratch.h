#pragma once

#include <filesystem>

#include "detent/core/tensor.h"

namespace detent {

/// Allocator for tensors that may exceed memory. Large ones are mapped from a nameless file, which the system
/// pages out as needed. Disk space is reserved at once and freed with the tensor, also when the program is
/// killed.
class Scratch {
 public:
  static constexpr size_t kBytesInMemory = size_t{32} << 20;

  /// Files are created in `directory`.
  explicit Scratch(std::filesystem::path directory, size_t bytes_in_memory = kBytesInMemory)
      : directory_(std::move(directory)), bytes_in_memory_(bytes_in_memory) {}

  /// Zero-filled. Throws Error naming the directory if the disk is full.
  Tensor tensor(DType dtype, const Shape& shape) const;
  /// `tensor` as float32 (core/convert.h).
  Tensor to_float32(const Tensor& tensor) const;

 private:
  std::filesystem::path directory_;
  size_t bytes_in_memory_;
};

/// Pages out a tensor in a mapped file that will not be needed soon.
void page_out(const Tensor& tensor);
/// Takes the whole pages of a tensor that lies in a mapped file out of the process, and leaves them to the
/// system, which has them ready as long as nobody needs the memory. Any other tensor would lose its elements.
void unmap_pages(const Tensor& tensor);

}  // namespace detent
