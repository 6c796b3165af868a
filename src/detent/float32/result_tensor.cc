#include "detent/float32/tensor_layout.h"

#include <algorithm>
#include <memory>

#include "detent/core/block_cache.h"
#include "detent/core/element_types.h"

namespace detent {
namespace {

/// Never destroyed: tensors may live longer than what is static.
BlockCache& blocks() {
  constexpr size_t kSpare = size_t{32} << 20;
  static auto* const cache = new BlockCache(kSpare);
  return *cache;
}

}  // namespace

Tensor result_tensor(const Shape& shape) {
  const auto bytes = static_cast<size_t>(element_count(shape)) * sizeof(float);
  const std::shared_ptr<void> block(blocks().take(bytes), [](void* data) { blocks().give_back(data); });
  return Tensor::borrow(DType::kFloat32, shape, static_cast<std::byte*>(block.get()), block);
}

Tensor selected_positions(const Tensor& x, size_t dim, const std::vector<int64_t>& positions,
                          const Tensor& otherwise) {
  const int64_t inner = element_count({x.shape().begin() + static_cast<int64_t>(dim) + 1, x.shape().end()});
  const int64_t size = x.shape()[dim];
  Shape shape = x.shape();
  shape[dim] = std::ssize(positions);
  Tensor result(x.dtype(), shape);
  visit_words(x.dtype(), [&]<class Word>(Word) {
    const Word* const from = words_of<Word>(x);
    Word* const to = words_of<Word>(result);
    const int64_t lines = inner == 0 ? 0 : result.numel() / inner;
    for (int64_t line = 0; line < lines; ++line) {
      const int64_t position = positions[static_cast<size_t>(line % shape[dim])];
      if (position < 0)
        std::fill_n(to + line * inner, inner, words_of<Word>(otherwise)[0]);
      else
        std::copy_n(from + (line / shape[dim] * size + position) * inner, inner, to + line * inner);
    }
  });
  return result;
}

}  // namespace detent
