#include "detent/datasets/sample_readers.h"

#include <algorithm>
#include <cstddef>

#include "detent/core/error.h"
#include "detent/files/file.h"

namespace detent {
namespace {

constexpr int64_t kChannels = 3;
constexpr int64_t kSide = 32;
constexpr size_t kPixels = kChannels * kSide * kSide;

int64_t class_of(std::span<const std::byte> label_bytes, const CifarLayout& layout,
                 const std::filesystem::path& path, int64_t record) {
  for (size_t i = 0; i < label_bytes.size(); ++i) {
    const int label = std::to_integer<int>(label_bytes[i]);
    if (label >= layout.label_limits[i]) {
      fail("{}: label byte {} of record {} is {}, expected 0 to {}", path.string(), i, record, label,
           layout.label_limits[i] - 1);
    }
  }
  return std::to_integer<int64_t>(label_bytes.back());
}

}  // namespace

CifarImages read_cifar(std::span<const std::filesystem::path> files, const CifarLayout& layout) {
  const size_t label_size = layout.label_limits.size();
  DETENT_CHECK(label_size > 0 && layout.records_per_file > 0, "layout of {} label bytes", label_size);
  const auto record_size = label_size + kPixels;
  const auto records = static_cast<size_t>(layout.records_per_file);

  CifarImages result;
  result.images =
      Tensor(DType::kUInt8, {static_cast<int64_t>(files.size() * records), kChannels, kSide, kSide});
  auto target = result.images.bytes().begin();
  for (const std::filesystem::path& path : files) {
    const auto file = map_file(path);
    const std::span<const std::byte> bytes = file->bytes();
    if (bytes.size() != records * record_size) {
      fail("{}: has {} bytes, expected {} ({} records of {} bytes): the file is {}", path.string(),
           bytes.size(), records * record_size, records, record_size,
           bytes.size() < records * record_size ? "truncated or of another kind" : "of another kind");
    }
    for (size_t i = 0; i < records; ++i) {
      const auto record = bytes.subspan(i * record_size, record_size);
      result.labels.push_back(class_of(record.first(label_size), layout, path, static_cast<int64_t>(i)));
      target = std::ranges::copy(record.subspan(label_size), target).out;
    }
  }
  return result;
}

}  // namespace detent
