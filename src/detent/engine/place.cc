#include "detent/engine/place.h"

#include <numeric>

namespace detent {

int64_t arrange(std::vector<Place>& places) {
  constexpr int64_t kAlignment = 64;
  std::vector<size_t> by_size(places.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::ranges::stable_sort(by_size,
                           [&](size_t a, size_t b) { return places[a].bytes() > places[b].bytes(); });
  int64_t all = 0;
  std::vector<const Place*> placed;  // in the order of their offsets
  for (const size_t index : by_size) {
    Place& place = places[index];
    if (place.part_of) continue;
    const int64_t bytes = (place.bytes() + kAlignment - 1) / kAlignment * kAlignment;
    int64_t offset = 0;
    for (const Place* other : placed) {
      if (other->last_step < place.first_step || place.last_step < other->first_step) continue;
      if (offset + bytes <= other->offset) break;
      offset = std::max(offset, other->offset + (other->bytes() + kAlignment - 1) / kAlignment * kAlignment);
    }
    place.offset = offset;
    all = std::max(all, offset + bytes);
    const auto after = std::ranges::upper_bound(placed, offset, {}, &Place::offset);
    placed.insert(after, &place);
  }
  for (Place& place : places) {
    if (place.part_of) place.offset = places[*place.part_of].offset + place.part_begin;
  }
  return all;
}

}  // namespace detent
