#include "detent/hardware/logic.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace detent {
namespace {

using HeapLiteral = LutNetlist::Literal;

/// Table of bit `digit` of the number of ones among `inputs` bits.
uint64_t count_table(size_t inputs, int digit) {
  uint64_t table = 0;
  for (size_t i = 0; i < size_t{1} << inputs; ++i)
    table |= static_cast<uint64_t>(std::popcount(i) >> digit & 1) << i;
  return table;
}

/// Table of bit `digit` of the sum of two numbers of `digits` bits and a carry: inputs a0 b0 a1 b1 ... carry.
uint64_t sum_table(int digits, int digit) {
  uint64_t table = 0;
  for (int i = 0; i < 1 << (2 * digits + 1); ++i) {
    int sum = i >> (2 * digits) & 1;
    for (int d = 0; d < digits; ++d) sum += ((i >> (2 * d) & 1) + (i >> (2 * d + 1) & 1)) << d;
    table |= static_cast<uint64_t>(sum >> digit & 1) << i;
  }
  return table;
}

HeapLiteral row(const std::vector<HeapLiteral>& column, size_t index) {
  return index < column.size() ? column[index] : LutNetlist::kFalse;
}

}  // namespace

void BitHeap::add(HeapLiteral literal, int64_t weight) {
  for (size_t place = 0; weight != 0 && place < columns_.size(); ++place) {
    if (weight % 2 != 0) {
      const int64_t digit = (weight & 3) == 3 ? -1 : 1;
      weight -= digit;
      if (digit == 1) {
        columns_[place].push_back(literal);
      } else {  // -b = (1 - b) - 1
        columns_[place].push_back(LutNetlist::inverse(literal));
        constant_ -= uint64_t{1} << place;
      }
    }
    weight /= 2;
  }
}

bool BitHeap::compress_column(size_t column, std::vector<std::vector<HeapLiteral>>& next) {
  const std::vector<HeapLiteral>& bits = columns_[column];
  size_t done = 0;
  bool compressed = false;
  while (bits.size() - done >= 3) {
    const size_t take = bits.size() - done >= 6 ? 6 : (bits.size() - done == 5 ? 5 : 3);
    const std::vector<HeapLiteral> taken(bits.begin() + static_cast<ptrdiff_t>(done),
                                         bits.begin() + static_cast<ptrdiff_t>(done + take));
    const int digits = take > 3 ? 3 : 2;
    for (int digit = 0; digit < digits; ++digit) {
      const size_t place = column + static_cast<size_t>(digit);
      if (place < next.size()) next[place].push_back(netlist_.lut(count_table(take, digit), taken));
    }
    done += take;
    compressed = true;
  }
  next[column].insert(next[column].end(), bits.begin() + static_cast<ptrdiff_t>(done), bits.end());
  return compressed;
}

void BitHeap::compress() {
  for (bool compressed = true; compressed;) {
    compressed = false;
    std::vector<std::vector<HeapLiteral>> next(columns_.size());
    for (size_t column = 0; column < columns_.size(); ++column)
      compressed = compress_column(column, next) || compressed;
    columns_ = std::move(next);
    for (std::vector<HeapLiteral>& column : columns_) std::erase(column, LutNetlist::kFalse);
  }
}

std::vector<HeapLiteral> BitHeap::sum() {
  for (size_t place = 0; place < columns_.size(); ++place) {
    if ((constant_ >> place & 1) != 0) columns_[place].push_back(LutNetlist::kTrue);
  }
  compress();
  std::vector<HeapLiteral> result;
  HeapLiteral carry = LutNetlist::kFalse;
  for (size_t place = 0; place < columns_.size(); place += 2) {
    const bool is_last = place + 1 == columns_.size();
    std::vector<HeapLiteral> inputs = {row(columns_[place], 0), row(columns_[place], 1)};
    if (!is_last) inputs.insert(inputs.end(), {row(columns_[place + 1], 0), row(columns_[place + 1], 1)});
    inputs.push_back(carry);
    const int digits = is_last ? 1 : 2;
    for (int digit = 0; digit < digits; ++digit)
      result.push_back(netlist_.lut(sum_table(digits, digit), inputs));
    carry = netlist_.lut(sum_table(digits, digits), inputs);
  }
  return result;
}

}  // namespace detent
