#include "detent/hardware/lut_netlist.h"

#include <algorithm>

namespace detent {
namespace {

using Bit = LutNetlist::Bit;
using Lut = LutNetlist::Lut;

/// Entries of a table of so many inputs.
uint64_t entries_mask(size_t inputs) {
  return inputs >= 6 ? ~uint64_t{0} : (uint64_t{1} << (1U << inputs)) - 1;
}

/// The table without input `at`, where that has the value.
uint64_t cofactor(uint64_t table, size_t inputs, size_t at, bool value) {
  uint64_t result = 0;
  for (size_t i = 0; i < size_t{1} << (inputs - 1); ++i) {
    const size_t below = i & ((size_t{1} << at) - 1);
    const size_t entry = (i >> at << (at + 1)) | (size_t{value} << at) | below;
    result |= (table >> entry & 1) << i;
  }
  return result;
}

/// The table with inputs `at` and at + 1 exchanged.
uint64_t exchanged(uint64_t table, size_t inputs, size_t at) {
  uint64_t result = 0;
  for (size_t i = 0; i < size_t{1} << inputs; ++i) {
    const size_t low = i >> at & 1;
    const size_t high = i >> (at + 1) & 1;
    const size_t entry = (i & ~(size_t{3} << at)) | (low << (at + 1)) | (high << at);
    result |= (table >> entry & 1) << i;
  }
  return result;
}

uint64_t inverted_input(uint64_t table, size_t inputs, size_t at) {
  uint64_t result = 0;
  for (size_t i = 0; i < size_t{1} << inputs; ++i) result |= (table >> (i ^ (size_t{1} << at)) & 1) << i;
  return result;
}

/// Tables and who reads them, while tables move into their readers.
class Packing {
 public:
  Packing(std::vector<Lut> luts, Bit first, const std::vector<LutNetlist::Literal>& outputs)
      : luts_(std::move(luts)),
        first_(first),
        readers_(luts_.size()),
        is_output_(luts_.size()),
        is_gone_(luts_.size()) {
    for (const LutNetlist::Literal output : outputs) {
      if (LutNetlist::bit_of(output) >= first_) is_output_[LutNetlist::bit_of(output) - first_] = true;
    }
    for (size_t i = luts_.size(); i-- > 0;) {
      if (!is_output_[i] && readers_[i].empty()) {
        is_gone_[i] = true;
        continue;
      }
      for (const Bit bit : luts_[i].inputs) {
        if (bit >= first_) readers_[bit - first_].push_back(i);
      }
    }
  }

  void pack() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t i = 0; i < luts_.size(); ++i) moved = (!is_gone_[i] && move_into_readers(i)) || moved;
    }
  }

  const std::vector<Lut>& luts() const { return luts_; }
  bool is_gone(size_t index) const { return is_gone_[index]; }

 private:
  std::vector<Bit> joined_inputs(const Lut& reader, const Lut& read) const {
    std::vector<Bit> inputs;
    for (const Bit bit : reader.inputs) {
      if (bit != read.bit) inputs.push_back(bit);
    }
    for (const Bit bit : read.inputs) {
      if (std::ranges::find(inputs, bit) == inputs.end()) inputs.push_back(bit);
    }
    return inputs;
  }

  bool move_into_readers(size_t index) {
    if (is_output_[index]) return false;
    const Lut& read = luts_[index];
    for (const size_t reader : readers_[index]) {
      if (joined_inputs(luts_[reader], read).size() > LutNetlist::kInputs) return false;
    }
    for (const size_t reader : readers_[index]) take_in(reader, read);
    is_gone_[index] = true;
    for (const Bit bit : read.inputs) {
      if (bit >= first_) std::erase(readers_[bit - first_], index);
    }
    return true;
  }

  void take_in(size_t index, const Lut& read) {
    Lut& reader = luts_[index];
    const std::vector<Bit> inputs = joined_inputs(reader, read);
    const auto address = [&](const std::vector<Bit>& wanted, size_t entry, bool value_of_read) {
      size_t result = 0;
      for (size_t k = 0; k < wanted.size(); ++k) {
        const auto place = static_cast<size_t>(std::ranges::find(inputs, wanted[k]) - inputs.begin());
        const bool value = wanted[k] == read.bit ? value_of_read : (entry >> place & 1) != 0;
        result |= size_t{value} << k;
      }
      return result;
    };
    uint64_t table = 0;
    for (size_t entry = 0; entry < size_t{1} << inputs.size(); ++entry) {
      const bool value = (read.table >> address(read.inputs, entry, false) & 1) != 0;
      table |= (reader.table >> address(reader.inputs, entry, value) & 1) << entry;
    }
    for (const Bit bit : read.inputs) {
      if (bit >= first_ && std::ranges::find(reader.inputs, bit) == reader.inputs.end())
        readers_[bit - first_].push_back(index);
    }
    reader.table = table;
    reader.inputs = inputs;
  }

  std::vector<Lut> luts_;
  Bit first_;
  std::vector<std::vector<size_t>> readers_;
  std::vector<bool> is_output_;
  std::vector<bool> is_gone_;
};

}  // namespace

LutNetlist::Literal LutNetlist::lut(uint64_t table, std::vector<Literal> literals) {
  std::vector<Bit> bits;
  for (size_t i = 0; i < literals.size(); ++i) {
    if (is_inverted(literals[i])) table = inverted_input(table, literals.size(), i);
    bits.push_back(bit_of(literals[i]));
  }
  for (size_t i = 0; i + 1 < bits.size(); ++i) {  // sorted, by exchanging neighbours
    for (size_t k = 0; k + 1 < bits.size() - i; ++k) {
      if (bits[k] <= bits[k + 1]) continue;
      std::swap(bits[k], bits[k + 1]);
      table = exchanged(table, bits.size(), k);
    }
  }
  const auto remove = [&](size_t i, uint64_t rest) {
    table = rest;
    bits.erase(bits.begin() + static_cast<ptrdiff_t>(i));
  };
  for (size_t i = bits.size(); i-- > 0;) {
    const uint64_t low = cofactor(table, bits.size(), i, false);
    const uint64_t high = cofactor(table, bits.size(), i, true);
    if (bits[i] == kZero) {
      remove(i, low);
    } else if (i > 0 && bits[i] == bits[i - 1]) {
      // Both have one value: entries where they differ never occur.
      uint64_t merged = 0;
      for (size_t entry = 0; entry < size_t{1} << (bits.size() - 1); ++entry)
        merged |= ((entry >> (i - 1) & 1) != 0 ? high >> entry & 1 : low >> entry & 1) << entry;
      remove(i, merged);
    }
  }
  for (size_t i = bits.size(); i-- > 0;) {
    const uint64_t low = cofactor(table, bits.size(), i, false);
    if (low == cofactor(table, bits.size(), i, true)) remove(i, low);
  }
  if (bits.empty()) return (table & 1) != 0 ? kTrue : kFalse;
  const bool inverted = (table & 1) != 0;
  if (inverted) table = ~table & entries_mask(bits.size());
  if (bits.size() == 1) return literal(bits[0], inverted);
  const auto [entry, is_new] = bits_.try_emplace({table, bits}, inputs_ + 1 + static_cast<Bit>(luts_.size()));
  if (is_new) luts_.push_back({entry->second, table, std::move(bits)});
  return literal(entry->second, inverted);
}

int LutNetlist::depth(const std::vector<Literal>& outputs) const {
  std::vector<int> depths(inputs_ + 1 + luts_.size());
  for (const Lut& lut : luts_) {
    for (const Bit bit : lut.inputs) depths[lut.bit] = std::max(depths[lut.bit], depths[bit] + 1);
  }
  int deepest = 0;
  for (const Literal output : outputs) deepest = std::max(deepest, depths[bit_of(output)]);
  return deepest;
}

LutNetlist LutNetlist::packed(std::vector<Literal>& outputs) const {
  Packing packing(luts_, inputs_ + 1, outputs);
  packing.pack();
  LutNetlist result(inputs_);
  std::vector<Literal> renamed(inputs_ + 1 + luts_.size());
  for (Bit bit = 0; bit <= inputs_; ++bit) renamed[bit] = literal(bit);
  for (size_t i = 0; i < luts_.size(); ++i) {
    if (packing.is_gone(i)) continue;
    const Lut& lut = packing.luts()[i];
    std::vector<Literal> inputs;
    for (const Bit bit : lut.inputs) inputs.push_back(renamed[bit]);
    renamed[lut.bit] = result.lut(lut.table, std::move(inputs));
  }
  for (Literal& output : outputs) output = renamed[bit_of(output)] ^ (is_inverted(output) ? 1 : 0);
  return result;
}

}  // namespace detent
