#pragma once

#include <filesystem>

#include "detent/core/tensor.h"

namespace detent {

/// Room for tensors that may be larger than memory. Those beyond a limit lie in a nameless file, mapped: what
/// is not in use then is no burden on the memory, since the system moves it to the disk and back as it needs
/// to. The disk space is reserved at once and given back with the tensor, also when the program is killed.
class Scratch {
 public:
  static constexpr size_t kBytesInMemory = size_t{32} << 20;

  /// The files are made in `directory`.
  explicit Scratch(std::filesystem::path directory, size_t bytes_in_memory = kBytesInMemory)
      : directory_(std::move(directory)), bytes_in_memory_(bytes_in_memory) {}

  /// Zero-filled. Throws Error naming the directory when the disk has no room.
  Tensor tensor(DType dtype, const Shape& shape) const;
  /// `tensor` as float32 (core/convert.h).
  Tensor to_float32(const Tensor& tensor) const;

 private:
  std::filesystem::path directory_;
  size_t bytes_in_memory_;
};

/// Takes a tensor that will not be needed soon out of memory, as far as it lies in a mapped file.
void page_out(const Tensor& tensor);
/// Takes the whole pages of a tensor that lies in a mapped file out of the process, and leaves them to the
/// system, which has them ready as long as nobody needs the memory. Any other tensor would lose its elements.
void unmap_pages(const Tensor& tensor);

}  // namespace detent
