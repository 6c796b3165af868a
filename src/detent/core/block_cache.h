#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace detent {

/// Physical memory of the machine in bytes.
size_t physical_memory();

/// Allocator for buffers of recurring sizes, such as a network's tensors. Large blocks come from the system
/// and are kept when freed: clearing and mapping new pages takes about as long as computing on them. Small
/// ones use malloc. Thread-safe.
///
/// Blocks kept never exceed `most_kept` bytes, or a sixteenth of the recent peak of blocks in use where that
/// is more, and with those in use never that peak plus `spare` bytes (and a page per block); the least
/// recently freed go first. Recent means the last kRecent to 2 kRecent large allocations.
class BlockCache {
 public:
  static constexpr size_t kAlignment = 64;  // of all blocks: a cache line, and the widest vector register
  static constexpr size_t kLarge = size_t{1} << 16;  // bytes, from which on a block is large
  static constexpr int64_t kRecent = 4096;

  explicit BlockCache(size_t spare, size_t most_kept = SIZE_MAX) : spare_(spare), most_kept_(most_kept) {}
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;
  /// All blocks must have been freed.
  ~BlockCache() { give_back_to_system(); }

  /// Never null, also for 0 bytes. Throws std::bad_alloc where the machine has less memory, since the system
  /// might overcommit and kill the process later.
  void* take(size_t bytes);
  /// Frees memory that `take` of this cache returned, or null.
  void give_back(void* data) noexcept;
  /// Frees all kept blocks.
  void give_back_to_system() noexcept;

  /// Large blocks.
  struct Bytes {
    size_t in_use = 0;
    size_t kept = 0;
    size_t most_in_use = 0;  // at once, since the last restart_most_in_use()
  };
  Bytes bytes() const;
  void restart_most_in_use();
  /// Size of a large block: `bytes`, rounded up by an eighth at most.
  static size_t rounded(size_t bytes);

 private:
  /// Precedes the data.
  struct alignas(kAlignment) Header {
    size_t size;  // that a large block holds; 0: a small one
    void* from_malloc;
    uint64_t kept_since;
    Header* older;  // of its size
    Header* newer;
  };
  struct Kept {
    Header* oldest = nullptr;
    Header* newest = nullptr;
  };

  static void* take_small(size_t bytes);
  static Header* map(size_t size);
  static void unmap(Header* oldest) noexcept;
  Header* take_kept(size_t size);
  void note_use();
  /// Removes and returns the excess of kept blocks, linked by `newer`.
  Header* remove_superfluous() noexcept;
  void keep(Header* block) noexcept;

  /// Index of a rounded size: eight for each power of two.
  static size_t size_class(size_t size);
  static constexpr size_t kClasses = 8 * (49 - 16);  // from kLarge = 2^16 on, below 2^49

  const size_t spare_;
  const size_t most_kept_;
  mutable std::mutex mutex_;
  std::array<Kept, kClasses> kept_;
  Bytes bytes_;
  uint64_t clock_ = 0;
  int64_t taken_ = 0;  // large blocks, in this period
  size_t peak_ = 0;    // of what was in use in this period
  size_t peak_of_previous_ = 0;
};

/// `bytes`, at least 1, up to a multiple of the alignment of blocks.
constexpr size_t aligned_size(size_t bytes) {
  constexpr size_t kStep = BlockCache::kAlignment;
  return (bytes + (bytes == 0 ? kStep : kStep - 1)) / kStep * kStep;
}

/// Memory of tensors outside libtorch. Never destroyed: tensors may outlive other static variables.
BlockCache& tensor_blocks();

/// Uninitialized memory of tensor_blocks(); of malloc under sanitizers, which then see where a block ends.
/// Throws std::bad_alloc.
std::shared_ptr<std::byte> tensor_block(size_t bytes);

}  // namespace detent
