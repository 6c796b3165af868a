#include "detent/formats/measure/distinct_values.h"

#include "detent/formats/elements/counter_random.h"

namespace detent {

void DistinctValues::insert_bits(uint32_t bits) {
  const size_t mask = slots_.size() - 1;
  size_t slot = mix32(bits) & mask;
  while (slots_[slot] != kEmpty) {
    if (slots_[slot] == bits) return;
    slot = (slot + 1) & mask;
  }
  if (size_ == kLimit) {
    too_many_ = true;
    slots_.assign(1, kEmpty);
    return;
  }
  slots_[slot] = bits;
  ++size_;
  if (2 * size_ > slots_.size()) grow();
}

void DistinctValues::grow() {
  const std::vector<uint32_t> old = std::move(slots_);
  slots_.assign(2 * old.size(), kEmpty);
  size_ = 0;
  for (const uint32_t bits : old) {
    if (bits != kEmpty) insert_bits(bits);
  }
}

void DistinctValues::merge(const DistinctValues& other) {
  too_many_ = too_many_ || other.too_many_;
  for (const uint32_t bits : other.slots_) {
    if (too_many_) break;
    if (bits != kEmpty) insert_bits(bits);
  }
}

}  // namespace detent
