#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "detent/statistics/key_histogram.h"
#include "detent/statistics/window_sums.h"

namespace detent {

/// Counts values for a KeyHistogram in one flat array, which takes a third of the time: a value's counter is
/// found without a page look-up. Worth it for many values, since emptying it costs
/// about as much as it saves for worthwhile_values / 2 of them. 2^(key_bits + 2) bytes, of which only the
/// parts that are counted in become memory.
class KeyCounter {
 public:
  /// The calling thread's counter, empty.
  static KeyCounter& of_thread(int key_bits);
  static int64_t worthwhile_values(int key_bits) { return int64_t{1} << (key_bits - 7); }

  void add(const FiniteChunk& chunk);
  /// The same, but the caller counts the chunk's values, as SideWork.
  void expect(const FiniteChunk& chunk, SideWork& side_work);
  /// Must be emptied before adding more.
  bool is_full() const { return total_ >> 31 != 0; }
  /// Moves all to `histogram`, and what is positive to `positive` too unless that is null. They have as many
  /// key bits.
  void empty_into(KeyHistogram& histogram, KeyHistogram* positive = nullptr);

 private:
  struct Free {
    void operator()(uint32_t* counts) const { std::free(counts); }
  };

  explicit KeyCounter(int key_bits);
  /// Calls action(page number, its counters), which clears them, for the pages that may have been counted in.
  template <class Action>
  void clear(Action action);

  int key_bits_;
  std::unique_ptr<uint32_t[], Free> counts_;  // by key; all zero but for exponents between the magnitudes'
  int64_t total_ = 0;
  Magnitudes magnitudes_;
};

}  // namespace detent
