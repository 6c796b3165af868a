#pragma once

#include <filesystem>

#include "detent/core/tensor.h"

namespace detent {

/// Maps a NumPy .npy file (versions 1 to 3): a header that is a Python dictionary literal, then the elements,
/// little endian, in C or Fortran order. The tensor borrows from the mapping and keeps it alive, except where
/// the file does not align it or holds several dimensions in Fortran order, of which it is a copy. Dtypes:
/// bool, int8 to int64, uint8, float16, float32, float64. Throws Error naming the file on another dtype or
/// byte order, and on data that are shorter or longer than the shape says.
Tensor read_npy(const std::filesystem::path& path);

/// Version 1 or, for a header of more than 64 kB, 2. Throws Error on bfloat16, which NumPy does not have.
void write_npy(const std::filesystem::path& path, const Tensor& tensor);

}  // namespace detent
