#pragma once

#include <cstdint>
#include <random>

#include "detent/search/space.h"

namespace detent {

/// Draws that are the same with every standard library, unlike its distributions.
class RandomDraws {
 public:
  explicit RandomDraws(uint64_t seed) : engine_(seed) {}

  /// In [0, count).
  int below(size_t count) { return static_cast<int>(engine_() % count); }
  /// In [0, 1).
  double share() { return static_cast<double>(engine_() >> 11U) * 0x1p-53; }

  /// Every assignment as likely as any other.
  Assignment assignment(const SearchSpace& space) {
    Assignment drawn;
    for (const Choice& choice : space.choices) drawn.push_back(below(choice.formats.size()));
    return drawn;
  }

 private:
  std::mt19937_64 engine_;
};

/// Assignments that a strategy proposes at a time, whatever the number of workers.
inline constexpr size_t kBatch = 8;

}  // namespace detent
