#include "detent/statistics/key_histogram.h"

#include <algorithm>
#include <bit>
#include <limits>

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

template <class Counter>
void CounterPages<Counter>::cover(size_t from, size_t to) {
  if (counters.empty()) first = from;
  if (from < first) {
    std::vector<std::unique_ptr<Counter[]>> longer(first - from);
    for (auto& page : counters) longer.push_back(std::move(page));
    counters = std::move(longer);
    first = from;
  }
  if (to >= first + counters.size()) counters.resize(to - first + 1);
}

template <class Counter>
void KeyHistogram::count(const FiniteChunk& chunk, CounterPages<Counter>& pages) {
  pages.cover(page_of(chunk.min_magnitude), page_of(chunk.max_magnitude) | 1U);
  // In local variables, which the loop's stores cannot change.
  std::unique_ptr<Counter[]>* const counters = pages.counters.data();
  const size_t first = pages.first;
  const int dropped = 32 - key_bits_;
  const uint32_t mask = static_cast<uint32_t>(cells_per_page()) - 1;
  for (const float value : chunk.values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    auto& page = counters[page_of(bits) - first];
    if (!page) [[unlikely]]
      page = std::make_unique<Counter[]>(cells_per_page());
    ++page[(bits >> dropped) & mask];
  }
}

void KeyHistogram::grow(int64_t more) {
  total_ += more;
  auto* narrow = std::get_if<CounterPages<uint32_t>>(&pages_);
  if (narrow == nullptr || total_ <= std::numeric_limits<uint32_t>::max()) return;
  CounterPages<uint64_t> wide;
  wide.first = narrow->first;
  for (const auto& counters : narrow->counters) {
    auto& wider = wide.counters.emplace_back();
    if (!counters) continue;
    wider = std::make_unique<uint64_t[]>(cells_per_page());
    std::copy_n(counters.get(), cells_per_page(), wider.get());
  }
  pages_ = std::move(wide);
}

void KeyHistogram::add(const FiniteChunk& chunk) {
  if (chunk.values.empty()) return;
  grow(static_cast<int64_t>(chunk.values.size()));
  std::visit([&](auto& pages) { count(chunk, pages); }, pages_);
}

void KeyHistogram::for_each(const std::function<void(size_t, size_t, uint64_t)>& action) const {
  std::visit(
      [&](const auto& pages) {
        for (size_t i = 0; i < pages.counters.size(); ++i) {
          if (!pages.counters[i]) continue;
          for (size_t cell = 0; cell < cells_per_page(); ++cell) {
            const uint64_t count = pages.counters[i][cell];
            if (count > 0) action(pages.first + i, cell, count);
          }
        }
      },
      pages_);
}

void KeyHistogram::add_count(size_t page_number, size_t cell, uint64_t count) {
  std::visit(
      [&]<class Counter>(CounterPages<Counter>& pages) {
        pages.cover(page_number, page_number);
        auto& page = pages.counters[page_number - pages.first];
        if (!page) page = std::make_unique<Counter[]>(cells_per_page());
        page[cell] += static_cast<Counter>(count);
      },
      pages_);
}

void KeyHistogram::merge(const KeyHistogram& other) {
  DETENT_CHECK(key_bits_ == other.key_bits_, "{} and {} key bits", key_bits_, other.key_bits_);
  grow(other.total_);
  other.for_each([&](size_t page, size_t cell, uint64_t count) { add_count(page, cell, count); });
}

KeyHistogram KeyHistogram::coarsened(int key_bits) const {
  DETENT_CHECK(key_bits <= key_bits_, "{} key bits from {}", key_bits, key_bits_);
  KeyHistogram coarse(key_bits);
  coarse.grow(total_);
  const int dropped = key_bits_ - key_bits;
  for_each([&](size_t page, size_t cell, uint64_t count) { coarse.add_count(page, cell >> dropped, count); });
  return coarse;
}

std::vector<KeyHistogram::Cell> KeyHistogram::cells() const {
  std::vector<Cell> negative;
  std::vector<Cell> positive;
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
      grow(static_cast<int64_t>(count));
      add_count(number, cell, count);
    }
  }
}

}  // namespace detent
