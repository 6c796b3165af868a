#include "detent/statistics/key_histogram.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "detent/core/error.h"

namespace detent {
namespace {

constexpr size_t kPagesOfFinite = 510;  // those of infinity and NaN stay empty

size_t page_of(uint32_t bits) { return ((bits >> 22) & 0x1FEU) | (bits >> 31); }

/// Sign and exponent of the page's values.
uint32_t page_bits(size_t page) {
  return static_cast<uint32_t>(page & 1U) << 31 | static_cast<uint32_t>(page >> 1) << 23;
}

}  // namespace

void KeyHistogram::cover(size_t from, size_t to) {
  if (pages_.empty()) first_ = from;
  if (from < first_) {
    std::vector<Page> longer(first_ - from);
    std::ranges::move(pages_, std::back_inserter(longer));
    pages_ = std::move(longer);
    first_ = from;
  }
  if (to >= first_ + pages_.size()) pages_.resize(to - first_ + 1);
}

uint16_t* KeyHistogram::page(size_t page_number) {
  Page& page = pages_[page_number - first_];
  if (!page) page = std::make_unique<uint16_t[]>(cells_per_page());
  return page.get();
}

void KeyHistogram::add(const FiniteChunk& chunk) {
  if (chunk.values.empty()) return;
  total_ += static_cast<int64_t>(chunk.values.size());
  cover(page_of(chunk.magnitudes.least), page_of(chunk.magnitudes.most) | 1U);
  const int dropped = 32 - key_bits_;
  const uint32_t mask = static_cast<uint32_t>(cells_per_page()) - 1;
  for (const float value : chunk.values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t cell = (bits >> dropped) & mask;
    if (++page(page_of(bits))[cell] == 0) [[unlikely]]
      ++wraps_[cell_number(page_of(bits), cell)];
  }
}

void KeyHistogram::take_page(size_t page_number, std::span<uint32_t> counts) {
  const uint32_t sum = sum_of_counts(counts);
  if (sum == 0) return;
  total_ += sum;
  cover(page_number, page_number);
  if (!add_counts(counts, page(page_number))) return;
  for (size_t cell = 0; cell < counts.size(); ++cell) {
    if (counts[cell] > 0) wraps_[cell_number(page_number, cell)] += std::exchange(counts[cell], 0U);
  }
}

template <class Action>
void KeyHistogram::for_each(Action action) const {
  auto wrap = wraps_.begin();  // in the same order
  std::vector<uint32_t> used(cells_per_page());
  for (size_t i = 0; i < pages_.size(); ++i) {
    if (!pages_[i]) continue;
    // Without a branch on each counter, which would be foreseen badly.
    size_t used_cells = 0;
    auto wrapped = wrap;
    for (uint32_t cell = 0; cell < cells_per_page(); ++cell) {
      const bool is_wrapped = wrapped != wraps_.end() && wrapped->first == cell_number(first_ + i, cell);
      if (is_wrapped) ++wrapped;
      used[used_cells] = cell;
      used_cells += static_cast<size_t>(is_wrapped) | static_cast<size_t>(pages_[i][cell] != 0);
    }
    for (const uint32_t cell : std::span(used).first(used_cells)) {
      uint64_t count = pages_[i][cell];
      if (wrap != wraps_.end() && wrap->first == cell_number(first_ + i, cell)) count += wrap++->second << 16;
      action(first_ + i, cell, count);
    }
  }
}

void KeyHistogram::add_count(size_t page_number, size_t cell, uint64_t count) {
  cover(page_number, page_number);
  uint16_t& counter = page(page_number)[cell];
  const uint64_t sum = counter + count;
  counter = static_cast<uint16_t>(sum);
  if (sum >> 16 != 0) wraps_[cell_number(page_number, cell)] += sum >> 16;
}

void KeyHistogram::merge(const KeyHistogram& other) {
  DETENT_CHECK(key_bits_ == other.key_bits_, "{} and {} key bits", key_bits_, other.key_bits_);
  total_ += other.total_;
  other.for_each([&](size_t page, size_t cell, uint64_t count) { add_count(page, cell, count); });
}

KeyHistogram KeyHistogram::coarsened(int key_bits) const {
  DETENT_CHECK(key_bits <= key_bits_, "{} key bits from {}", key_bits, key_bits_);
  KeyHistogram coarse(key_bits);
  coarse.total_ = total_;
  const int dropped = key_bits_ - key_bits;
  for_each([&](size_t page, size_t cell, uint64_t count) { coarse.add_count(page, cell >> dropped, count); });
  return coarse;
}

std::vector<ValueBin> KeyHistogram::cells() const {
  std::vector<ValueBin> negative;
  std::vector<ValueBin> positive;
  for (auto* bins : {&negative, &positive}) bins->reserve((pages_.size() / 2 + 1) * cells_per_page());
  const uint32_t width = uint32_t{1} << (32 - key_bits_);
  for_each([&](size_t page, size_t cell, uint64_t count) {
    const uint32_t inner = page_bits(page) | static_cast<uint32_t>(cell) * width;
    const auto nearer = std::bit_cast<float>(inner);
    const auto farther = std::bit_cast<float>(inner + (width - 1));
    const auto counted = static_cast<int64_t>(count);
    if ((page & 1U) != 0) {
      negative.push_back({farther, nearer + 0.0F, counted});
    } else {
      positive.push_back({nearer, farther, counted});
    }
  });
  std::ranges::reverse(negative);
  negative.insert(negative.end(), positive.begin(), positive.end());
  return negative;
}

// For each page that is not empty: its number, a bit a cell that tells which are not empty, their counts.
void KeyHistogram::write(StateWriter& writer) const {
  struct PageState {
    size_t number;
    std::vector<std::pair<size_t, uint64_t>> cells;
  };
  std::vector<PageState> pages;
  for_each([&](size_t page, size_t cell, uint64_t count) {
    if (pages.empty() || pages.back().number != page) pages.push_back({page, {}});
    pages.back().cells.emplace_back(cell, count);
  });
  writer.number(static_cast<uint16_t>(pages.size()));
  for (const PageState& page : pages) {
    writer.number(static_cast<uint16_t>(page.number));
    std::vector<uint8_t> used(cells_per_page() / 8);
    for (const auto& [cell, count] : page.cells) used[cell / 8] |= static_cast<uint8_t>(1U << (cell % 8));
    for (const uint8_t bits : used) writer.number(bits);
    for (const auto& [cell, count] : page.cells) writer.compact(count);
  }
}

void KeyHistogram::read(StateReader& reader) {
  const auto pages = reader.number<uint16_t>();
  size_t next = 0;
  for (uint16_t i = 0; i < pages; ++i) {
    const size_t number = reader.number<uint16_t>();
    if (number < next || number >= kPagesOfFinite) bad_state(fmt::format("got the page {}", number));
    next = number + 1;
    const auto used = reader.take(cells_per_page() / 8);
    for (size_t cell = 0; cell < cells_per_page(); ++cell) {
      if ((std::to_integer<unsigned>(used[cell / 8]) >> (cell % 8) & 1U) == 0) continue;
      const uint64_t count = reader.compact();
      if (count == 0 || count >> 56 != 0U || total_ >> 56 != 0)
        bad_state(fmt::format("got the count {}", count));
      total_ += static_cast<int64_t>(count);
      add_count(number, cell, count);
    }
  }
}

}  // namespace detent
