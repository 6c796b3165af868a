#include "detent/core/process_resources.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <vector>

// AddressSanitizer sees only what malloc gives.
// NOLINTBEGIN(bugprone-reserved-identifier): names of compilers
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DETENT_BLOCKS_FROM_MALLOC 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DETENT_BLOCKS_FROM_MALLOC 1
#endif
// NOLINTEND(bugprone-reserved-identifier)

namespace detent {
namespace {

constexpr size_t kPage = 4096;

struct Block {
  std::byte* data = nullptr;
  size_t bytes = 0;
};

/// Where memory is new, one fault then brings 512 pages. The system may refuse: nothing else changes.
void ask_for_huge_pages(const Block& block) {
  constexpr uintptr_t kHugePage = uintptr_t{1} << 21;
  const auto begin = reinterpret_cast<uintptr_t>(block.data);
  const auto first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const auto end = (begin + block.bytes) / kHugePage * kHugePage;
  if (first < end) static_cast<void>(madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE));
}

Block block_of_system(size_t bytes) {
#if defined(DETENT_BLOCKS_FROM_MALLOC)
  return {static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)), bytes};
#else
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return {};
  const Block block{static_cast<std::byte*>(pages), bytes};
  ask_for_huge_pages(block);
  return block;
#endif
}

void return_to_system(const Block& block) {
#if defined(DETENT_BLOCKS_FROM_MALLOC)
  std::free(block.data);
#else
  munmap(block.data, block.bytes);
#endif
}

class LargeBlocks {
 public:
  Block take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    Block block = kept_block(bytes);
    if (block.data == nullptr) block = block_of_system(bytes);
    if (block.data == nullptr && !kept_.empty()) {
      while (!kept_.empty()) drop(kept_.begin());
      block = block_of_system(bytes);
    }
    if (block.data == nullptr) return block;
    count_.used += static_cast<int64_t>(block.bytes);
    count_.most = std::max(count_.most, count_.used);
    return block;
  }

  void give_back(const Block& block) {
    const std::lock_guard lock(mutex_);
    count_.used -= static_cast<int64_t>(block.bytes);
    count_.kept += static_cast<int64_t>(block.bytes);
    kept_.push_back(block);
    while (count_.kept > kMostKept) drop(kept_.begin());
  }

  LargeBlockBytes bytes() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

  void reset_most() {
    const std::lock_guard lock(mutex_);
    count_.most = count_.used;
  }

 private:
#if defined(DETENT_BLOCKS_FROM_MALLOC)
  static constexpr int64_t kMostKept = 0;
#else
  static constexpr int64_t kMostKept = int64_t{24} << 20;
#endif

  /// The smallest that is large enough, unless it would waste more than a quarter.
  Block kept_block(size_t bytes) {
    auto best = kept_.end();
    for (auto block = kept_.begin(); block != kept_.end(); ++block) {
      const bool fits = block->bytes >= bytes && block->bytes - bytes <= bytes / 4;
      if (fits && (best == kept_.end() || block->bytes < best->bytes)) best = block;
    }
    if (best == kept_.end()) return {};
    const Block block = *best;
    count_.kept -= static_cast<int64_t>(block.bytes);
    kept_.erase(best);
    return block;
  }

  void drop(std::vector<Block>::iterator block) {
    return_to_system(*block);
    count_.kept -= static_cast<int64_t>(block->bytes);
    kept_.erase(block);
  }

  std::mutex mutex_;
  std::vector<Block> kept_;  // in the order of their return
  LargeBlockBytes count_;
};

/// Never destroyed: tensors of static variables give their blocks back last.
LargeBlocks& blocks() {
  static auto* const all = new LargeBlocks;
  return *all;
}

}  // namespace

std::shared_ptr<std::byte> large_block(size_t bytes) {
  const Block block = blocks().take((bytes + kPage - 1) / kPage * kPage);
  if (block.data == nullptr) return nullptr;
  return {block.data, [block](std::byte*) { blocks().give_back(block); }};
}

LargeBlockBytes large_block_bytes() { return blocks().bytes(); }

void reset_most_large_block_bytes() { blocks().reset_most(); }

}  // namespace detent
