#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace detent {

/// Numbers that follow from a seed and an index alone, on every machine (splitmix64).
class Random {
 public:
  Random(uint64_t seed, uint64_t index)
      : state_(seed * 0x9E3779B97F4A7C15ULL ^ index * 0xD1B54A32D192ED03ULL) {
    next();
  }

  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

  /// Both ends are included.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(double probability) { return static_cast<double>(next() >> 11) * 0x1p-53 < probability; }

  template <class T>
  const T& of(const std::vector<T>& choices) {
    return choices[next() % choices.size()];
  }
  template <class T>
  T of(std::initializer_list<T> choices) {
    return choices.begin()[next() % choices.size()];
  }
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[next() % i]);
  }

 private:
  uint64_t state_;
};

}  // namespace detent
