#include "detent/core/process_resources.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <new>

// AddressSanitizer sees only what malloc gives.
// NOLINTBEGIN(bugprone-reserved-identifier): names of compilers
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
// NOLINTEND(bugprone-reserved-identifier)

namespace detent {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kTakesFromMalloc = true;
#else
constexpr bool kTakesFromMalloc = false;
#endif

constexpr size_t kPage = 4096;
constexpr size_t kMostBlocksKept = 24;  // of the smallest size
constexpr int64_t kMostKept = kTakesFromMalloc ? 0 : int64_t{kMostBlocksKept * kLargeBlock};

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
  if (kTakesFromMalloc) return {static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)), bytes};
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return {};
  const Block block{static_cast<std::byte*>(pages), bytes};
  ask_for_huge_pages(block);
  return block;
}

void return_to_system(const Block& block) {
  if (kTakesFromMalloc)
    std::free(block.data);
  else
    munmap(block.data, block.bytes);
}

class LargeBlocks {
 public:
  Block take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    Block block = kept_block(bytes);
    if (block.data == nullptr) block = block_of_system(bytes);
    if (block.data == nullptr && kept_count_ > 0) {
      while (kept_count_ > 0) return_to_system(removed(0));
      block = block_of_system(bytes);
    }
    if (block.data == nullptr) return block;
    count_.used += static_cast<int64_t>(block.bytes);
    count_.most = std::max(count_.most, count_.used);
    return block;
  }

  void give_back(const Block& block) {
    const std::lock_guard lock(mutex_);
    const auto bytes = static_cast<int64_t>(block.bytes);
    count_.used -= bytes;
    if (bytes > kMostKept) return return_to_system(block);
    while (count_.kept + bytes > kMostKept) return_to_system(removed(0));
    kept_[kept_count_++] = block;
    count_.kept += bytes;
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
  /// The smallest that is large enough, unless it would waste more than a quarter.
  Block kept_block(size_t bytes) {
    size_t best = kept_count_;
    for (size_t i = 0; i < kept_count_; ++i) {
      const bool fits = kept_[i].bytes >= bytes && kept_[i].bytes - bytes <= bytes / 4;
      if (fits && (best == kept_count_ || kept_[i].bytes < kept_[best].bytes)) best = i;
    }
    return best == kept_count_ ? Block() : removed(best);
  }

  Block removed(size_t index) {
    const Block block = kept_[index];
    std::copy(kept_.begin() + index + 1, kept_.begin() + kept_count_, kept_.begin() + index);
    --kept_count_;
    count_.kept -= static_cast<int64_t>(block.bytes);
    return block;
  }

  std::mutex mutex_;
  std::array<Block, kMostBlocksKept> kept_;  // in the order of their return
  size_t kept_count_ = 0;
  LargeBlockBytes count_;
};

/// Never destroyed: tensors of static variables give their blocks back last.
LargeBlocks& blocks() {
  alignas(LargeBlocks) static std::byte place[sizeof(LargeBlocks)];
  static auto* const all = new (place) LargeBlocks;
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
