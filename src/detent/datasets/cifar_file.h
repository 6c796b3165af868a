#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "detent/core/tensor.h"

namespace detent {

/// The binary layout of the CIFAR sets: records without a header, each of label bytes and 3,072 pixels (the
/// red, the green and the blue plane of a 32x32 image, row by row).
struct CifarLayout {
  int64_t records_per_file = 10000;
  std::vector<int> label_limits;  // of each label byte: it is below that; the last byte is the class
};

struct CifarImages {
  Tensor images;  // uint8 [n, 3, 32, 32]
  std::vector<int64_t> labels;
};

/// The records of `files`, in order. Throws Error, naming the file, when its size is not that of the layout
/// (the format has no other mark of its own) or a label byte is out of range.
CifarImages read_cifar(std::span<const std::filesystem::path> files, const CifarLayout& layout);

}  // namespace detent
