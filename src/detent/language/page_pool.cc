#include "detent/language/page_pool.h"

#include <algorithm>

namespace detent {

Tensor PagePool::page(int64_t bytes) {
  constexpr int64_t kBlockBytes = int64_t{1} << 18;
  std::byte* page = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::byte*>& free = free_[bytes];
    if (free.empty()) {
      const int64_t count = std::max<int64_t>(1, kBlockBytes / bytes);
      blocks_.emplace_back(DType::kUInt8, Shape{count * bytes});
      for (int64_t i = count; i-- > 0;) free.push_back(blocks_.back().bytes().data() + i * bytes);
    }
    page = free.back();
    free.pop_back();
  }
  std::fill_n(page, bytes, std::byte{0});
  const std::shared_ptr<const void> owner(
      page, [pool = shared_from_this(), bytes](std::byte* given) { pool->give_back(bytes, given); });
  return Tensor::borrow(DType::kUInt8, {bytes}, page, owner);
}

void PagePool::give_back(int64_t bytes, std::byte* page) {
  const std::lock_guard lock(mutex_);
  free_[bytes].push_back(page);
}

}  // namespace detent
