#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace detent {

/// The set of finite float32 values seen, up to a limit; beyond it only "too many" is known. Zeros of both
/// signs are one value. Union is independent of order.
class DistinctValues {
 public:
  static constexpr size_t kLimit = size_t{1} << 16;

  void insert(float value) {
    const uint32_t bits = value == 0.0F ? 0U : std::bit_cast<uint32_t>(value);
    if (bits == last_ || too_many_) return;
    last_ = bits;
    insert_bits(bits);
  }
  void merge(const DistinctValues& other);

  bool too_many() const { return too_many_; }
  /// kLimit + 1 when too many.
  size_t size() const { return too_many_ ? kLimit + 1 : size_; }

 private:
  static constexpr uint32_t kEmpty = 0xFFFFFFFFU;  // a NaN

  void insert_bits(uint32_t bits);
  void grow();

  std::vector<uint32_t> slots_ = std::vector<uint32_t>(64, kEmpty);  // open addressing, at most half full
  size_t size_ = 0;
  uint32_t last_ = kEmpty;  // neighbours are often equal
  bool too_many_ = false;
};

}  // namespace detent
