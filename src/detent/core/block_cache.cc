#include "detent/core/block_cache.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <utility>

#include "detent/core/process_resources.h"

namespace detent {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

size_t physical_memory() {
  static const size_t bytes =
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  return bytes;
}

size_t BlockCache::rounded(size_t bytes) {
  const size_t step = std::max(kPage, std::bit_floor(bytes) / 8);
  return (bytes - 1) / step * step + step;
}

size_t BlockCache::size_class(size_t size) {
  const auto log2 = static_cast<size_t>(std::bit_width(size)) - 1;
  return 8 * (log2 - std::countr_zero(kLarge)) + (size >> (log2 - 3)) % 8;
}

void* BlockCache::take_small(size_t bytes) {
  // malloc instead of aligned_alloc, which asks glibc for more than it keeps: what a block leaves behind is
  // then too small for the next of its size, and the heap breaks into pieces of which half lie idle.
  constexpr size_t kMore = sizeof(Header) + kAlignment - 1;
  void* block = std::malloc(bytes + kMore);
  if (block == nullptr) throw std::bad_alloc();
  const uintptr_t data = (reinterpret_cast<uintptr_t>(block) + kMore) / kAlignment * kAlignment;
  auto* header = reinterpret_cast<Header*>(data) - 1;
  header->size = 0;
  header->from_malloc = block;
  return header + 1;
}

BlockCache::Header* BlockCache::map(size_t size) {
  void* block = mmap(nullptr, size + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return nullptr;
  constexpr size_t kHugePage = size_t{1} << 21;
  if (size >= kHugePage) madvise(block, size + kPage, MADV_HUGEPAGE);  // 512 pages with one fault
  auto* header = static_cast<Header*>(block);
  header->size = size;
  return header;
}

void BlockCache::unmap(Header* oldest) noexcept {
  while (oldest != nullptr) {
    Header* const block = std::exchange(oldest, oldest->newer);
    munmap(block, block->size + kPage);
  }
}

void* BlockCache::take(size_t bytes) {
  if (bytes < kLarge) return take_small(bytes);
  if (bytes > physical_memory()) throw std::bad_alloc();
  const size_t size = rounded(bytes);
  Header* superfluous = nullptr;
  {
    const std::lock_guard lock(mutex_);
    bytes_.in_use += size;
    note_use();
    if (Header* const kept = take_kept(size)) return kept + 1;
    superfluous = remove_superfluous();
  }
  unmap(superfluous);
  Header* block = map(size);
  if (block == nullptr) {
    give_back_to_system();
    block = map(size);
  }
  if (block != nullptr) return block + 1;
  const std::lock_guard lock(mutex_);
  bytes_.in_use -= size;
  throw std::bad_alloc();
}

void BlockCache::give_back(void* data) noexcept {
  if (data == nullptr) return;
  Header* const block = static_cast<Header*>(data) - 1;
  if (block->size == 0) return std::free(block->from_malloc);
  Header* superfluous = nullptr;
  {
    const std::lock_guard lock(mutex_);
    bytes_.in_use -= block->size;
    keep(block);
    superfluous = remove_superfluous();
  }
  unmap(superfluous);
}

BlockCache::Header* BlockCache::take_kept(size_t size) {
  Kept& kept = kept_[size_class(size)];
  Header* const block = kept.newest;  // the likeliest to be in the processor's caches
  if (block == nullptr) return nullptr;
  kept.newest = block->older;
  (kept.newest == nullptr ? kept.oldest : kept.newest->newer) = nullptr;
  bytes_.kept -= size;
  return block;
}

void BlockCache::keep(Header* block) noexcept {
  Kept& kept = kept_[size_class(block->size)];
  block->kept_since = clock_++;
  block->newer = nullptr;
  block->older = kept.newest;
  (kept.newest == nullptr ? kept.oldest : kept.newest->newer) = block;
  kept.newest = block;
  bytes_.kept += block->size;
}

void BlockCache::note_use() {
  bytes_.most_in_use = std::max(bytes_.most_in_use, bytes_.in_use);
  peak_ = std::max(peak_, bytes_.in_use);
  if (++taken_ < kRecent) return;
  taken_ = 0;
  peak_of_previous_ = std::exchange(peak_, bytes_.in_use);
}

BlockCache::Header* BlockCache::remove_superfluous() noexcept {
  constexpr size_t kShare = 16;
  const size_t peak = std::max(peak_, peak_of_previous_);
  const size_t most_kept = std::max(most_kept_, peak / kShare);
  Header* removed = nullptr;
  while (bytes_.kept > 0 && (bytes_.in_use + bytes_.kept > peak + spare_ || bytes_.kept > most_kept)) {
    Kept* longest = nullptr;
    for (Kept& kept : kept_) {
      if (kept.oldest == nullptr) continue;
      if (longest == nullptr || kept.oldest->kept_since < longest->oldest->kept_since) longest = &kept;
    }
    Header* const block = longest->oldest;
    longest->oldest = block->newer;
    (longest->oldest == nullptr ? longest->newest : longest->oldest->older) = nullptr;
    bytes_.kept -= block->size;
    block->newer = std::exchange(removed, block);
  }
  return removed;
}

void BlockCache::give_back_to_system() noexcept {
  Header* removed = nullptr;
  {
    const std::lock_guard lock(mutex_);
    for (const Kept& kept : kept_) {
      while (kept.oldest != nullptr) {
        Header* const block = take_kept(kept.oldest->size);
        block->newer = std::exchange(removed, block);
      }
    }
  }
  unmap(removed);
}

BlockCache::Bytes BlockCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void BlockCache::restart_most_in_use() {
  const std::lock_guard lock(mutex_);
  bytes_.most_in_use = bytes_.in_use;
}

BlockCache& tensor_blocks() {
  constexpr size_t kMostKept = size_t{16} << 20;  // more makes quantization no faster
  alignas(BlockCache) static std::byte place[sizeof(BlockCache)];
  static auto* const cache = new (place) BlockCache(kMostKept, kMostKept);
  return *cache;
}

std::shared_ptr<std::byte> tensor_block(size_t bytes) {
  if constexpr (kSanitizersTakeMemory) {
    void* const data = std::aligned_alloc(BlockCache::kAlignment, aligned_size(bytes));
    if (data == nullptr) throw std::bad_alloc();
    return {static_cast<std::byte*>(data), [](std::byte* block) { std::free(block); }};
  } else {
    return {static_cast<std::byte*>(tensor_blocks().take(bytes)),
            [](std::byte* block) { tensor_blocks().give_back(block); }};
  }
}

}  // namespace detent
