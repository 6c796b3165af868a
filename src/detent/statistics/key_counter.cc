#include "detent/statistics/key_counter.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <new>

namespace detent {

// calloc takes such sizes from the system, which gives memory to what is touched.
KeyCounter::KeyCounter(int key_bits)
    : key_bits_(key_bits),
      counts_(static_cast<uint32_t*>(std::calloc(size_t{1} << key_bits, sizeof(uint32_t)))) {
  if (!counts_) throw std::bad_alloc();
}

KeyCounter& KeyCounter::of_thread(int key_bits) {
  thread_local std::map<int, KeyCounter> counters;
  auto found = counters.find(key_bits);
  if (found == counters.end()) found = counters.emplace(key_bits, KeyCounter(key_bits)).first;
  // A sweep that ended in an exception may have left counts.
  found->second.clear([](size_t, std::span<uint32_t> counts) { std::ranges::fill(counts, 0U); });
  return found->second;
}

void KeyCounter::expect(const FiniteChunk& chunk, SideWork& side_work) {
  total_ += static_cast<int64_t>(chunk.values.size());
  magnitudes_.merge(chunk.magnitudes);
  side_work.counts = counts_.get();
  side_work.dropped = 32 - key_bits_;
}

void KeyCounter::add(const FiniteChunk& chunk) {
  if (chunk.values.empty()) return;
  SideWork side_work;
  expect(chunk, side_work);
  uint32_t* const counts = side_work.counts;
  const int dropped = side_work.dropped;
  const float* value = chunk.values.data();
  const float* const end = value + chunk.values.size();
  // Two values a load: what remains is the one increment in memory that a cycle has room for.
  for (; end - value >= 4; value += 4) {
    const auto [a, b] =
        std::bit_cast<std::array<uint64_t, 2>>(std::array{value[0], value[1], value[2], value[3]});
    ++counts[static_cast<uint32_t>(a) >> dropped];
    ++counts[a >> 32 >> dropped];
    ++counts[static_cast<uint32_t>(b) >> dropped];
    ++counts[b >> 32 >> dropped];
  }
  for (; value != end; ++value) ++counts[std::bit_cast<uint32_t>(*value) >> dropped];
}

template <class Action>
void KeyCounter::clear(Action action) {
  const size_t cells = size_t{1} << (key_bits_ - 9);
  for (size_t exponent = magnitudes_.least >> 23; exponent <= magnitudes_.most >> 23; ++exponent) {
    for (const size_t negative : {size_t{0}, size_t{1}})
      action(exponent << 1 | negative, std::span(counts_.get() + (negative << 8 | exponent) * cells, cells));
  }
  total_ = 0;
  magnitudes_ = {};
}

void KeyCounter::empty_into(KeyHistogram& histogram, KeyHistogram* positive) {
  std::vector<uint32_t> copy;
  clear([&](size_t page, std::span<uint32_t> counts) {
    if (positive != nullptr && page % 2 == 0) {
      copy.assign(counts.begin(), counts.end());
      positive->take_page(page, copy);
    }
    histogram.take_page(page, counts);
  });
}

}  // namespace detent
