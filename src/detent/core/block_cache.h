#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace detent {

/// Bytes that the machine has.
size_t physical_memory();

/// Memory for buffers that come and go in the same sizes again and again, as a network's tensors do. Large
/// blocks come from the system and are kept when they are given back: to clear and map each page anew takes
/// about as long as to compute on it. Small ones come from malloc. Threads may share a cache.
///
/// Blocks in use and blocks kept are together never more than what was in use at once in recent times plus
/// `spare` bytes (and a page for each block); what was given back longest ago goes first. Recent are the last
/// kRecent to 2 kRecent large blocks that were taken.
class BlockCache {
 public:
  static constexpr size_t kAlignment = 64;           // of all blocks
  static constexpr size_t kLarge = size_t{1} << 16;  // bytes, from which on a block is large
  static constexpr int64_t kRecent = 4096;

  explicit BlockCache(size_t spare) : spare_(spare) {}
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;
  /// All blocks must have been given back.
  ~BlockCache() { give_back_to_system(); }

  /// Never null, also for 0 bytes. Throws std::bad_alloc, at once where the machine has less memory: the
  /// system might give it, and stop the process when it is used.
  void* take(size_t bytes);
  /// Gives back memory that `take` of the same cache returned, or null.
  void give_back(void* data) noexcept;
  /// All that is kept.
  void give_back_to_system() noexcept;

  struct Bytes {
    size_t in_use;
    size_t kept;
  };
  /// How many bytes large blocks take.
  Bytes bytes() const;
  /// Size of a large block: `bytes`, rounded up by an eighth at most.
  static size_t rounded(size_t bytes);

 private:
  /// Stands before the data.
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
  /// Takes what is more than may be kept from what is kept; linked by `newer`.
  Header* remove_superfluous() noexcept;
  void keep(Header* block) noexcept;

  const size_t spare_;
  mutable std::mutex mutex_;
  std::map<size_t, Kept> kept_;  // by size
  Bytes bytes_ = {0, 0};
  uint64_t clock_ = 0;
  int64_t taken_ = 0;  // large blocks, in this period
  size_t peak_ = 0;    // of what was in use in this period
  size_t peak_of_previous_ = 0;
};

}  // namespace detent
