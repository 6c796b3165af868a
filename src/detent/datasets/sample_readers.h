#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
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

/// idx files, the format of MNIST: bytes 0, 0, element type, number of dimensions (1..8 here); each dimension
/// as a big-endian uint32, at least 1; the elements, big-endian, row-major, and nothing else. Element types:
/// 8 uint8, 9 int8, 11 int16, 12 int32, 13 float32, 14 float64.
inline constexpr uint64_t kDefaultIdxLimit = uint64_t{1} << 32;

/// A plain or gzip-compressed idx file as a tensor of its shape and element type, in the byte order of this
/// machine. Throws Error, naming the file, what was found and what was expected, on any deviation from the
/// format, and when the header announces more than `limit` bytes of elements. Decompresses at most one byte
/// more than the header announces and allocates no more than the file can hold.
Tensor read_idx(const std::filesystem::path& path, uint64_t limit = kDefaultIdxLimit);

/// The same for bytes in memory; `name` begins the messages.
Tensor parse_idx(std::span<const std::byte> bytes, const std::string& name,
                 uint64_t limit = kDefaultIdxLimit);

struct LabelledFile {
  std::filesystem::path path;
  int64_t label = 0;
};

/// A table of files and their classes, .tsv or .csv: of a headline with the columns "file" and "class" (or
/// "label" or "index"), whatever others there are; or of two columns, without a headline. Classes are numbers
/// from 0 on. Files are looked for in `folder`, in its folder "images" and beside the table. Throws Error
/// naming the line.
std::vector<LabelledFile> read_label_file(const std::filesystem::path& path,
                                          const std::filesystem::path& folder);

}  // namespace detent
