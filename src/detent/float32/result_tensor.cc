#include "detent/float32/result_tensor.h"

#include <memory>

#include "detent/core/block_cache.h"

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

}  // namespace detent
