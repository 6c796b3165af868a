#include "detent/kernels/tensor_layout.h"

#include <algorithm>
#include <memory>

#include "detent/core/block_cache.h"
#include "detent/core/element_types.h"

namespace detent {
namespace {

/// Positions that follow one another, or, from a negative one on, what is no position.
struct PositionRun {
  int64_t first;
  int64_t count;
};

std::vector<PositionRun> position_runs(const std::vector<int64_t>& positions) {
  std::vector<PositionRun> runs;
  for (const int64_t position : positions) {
    const bool goes_on =
        !runs.empty() &&
        (runs.back().first < 0 ? position < 0 : position == runs.back().first + runs.back().count);
    if (goes_on)
      ++runs.back().count;
    else
      runs.push_back({position, 1});
  }
  return runs;
}

}  // namespace

Tensor result_tensor(DType dtype, const Shape& shape) {
  constexpr size_t kSmall = 4096;
  const auto bytes = static_cast<size_t>(element_count(shape)) * dtype_size(dtype);
  if (bytes <= kSmall) return unfilled_tensor(dtype, shape);
  const std::shared_ptr<std::byte> block = tensor_block(bytes);
  return Tensor::borrow(dtype, shape, block.get(), block);
}

Tensor selected_positions(const Tensor& x, size_t dim, const std::vector<int64_t>& positions,
                          const Tensor& otherwise) {
  const int64_t inner = element_count({x.shape().begin() + static_cast<int64_t>(dim) + 1, x.shape().end()});
  const int64_t size = x.shape()[dim];
  Shape shape = x.shape();
  shape[dim] = std::ssize(positions);
  Tensor result = result_tensor(x.dtype(), shape);
  const int64_t lines = result.numel() == 0 ? 0 : result.numel() / (inner * shape[dim]);
  const std::vector<PositionRun> runs = position_runs(positions);
  visit_words(x.dtype(), [&]<class Word>(Word) {
    const Word* from = words_of<Word>(x);
    Word* to = words_of<Word>(result);
    for (int64_t line = 0; line < lines; ++line, from += size * inner) {
      for (const PositionRun& run : runs) {
        const int64_t elements = run.count * inner;
        if (run.first < 0)
          std::fill_n(to, elements, words_of<Word>(otherwise)[0]);
        else
          std::copy_n(from + run.first * inner, elements, to);
        to += elements;
      }
    }
  });
  return result;
}

Tensor channels_last(const Tensor& images) {
  const int64_t channels = images.dim(1);
  const int64_t size = element_count(Shape(images.shape().begin() + 1, images.shape().end()));
  Tensor result = result_tensor(images.shape());
  for (int64_t n = 0; n < images.dim(0) && size > 0; ++n) {
    channels_to_last(images.values<float>().data() + n * size, size / channels, channels, size / channels,
                     result.values<float>().data() + n * size);
  }
  return result;
}

}  // namespace detent
