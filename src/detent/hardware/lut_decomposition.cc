#include "detent/hardware/lut_decomposition.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <optional>
#include <span>

namespace detent {
namespace {

using TableLiteral = LutNetlist::Literal;
using Choice = ChoosingInputs;
constexpr int kMost = LutNetlist::kInputs;

/// Tables that a function of so many inputs takes in general.
int64_t general_cost(int inputs) {
  if (inputs <= kMost) return 1;
  if (inputs == kMost + 1) return 3;
  return 4 * general_cost(inputs - 2) + 1;
}

bool depends(const TruthTable& value, const TruthTable& care, int input) {
  const TruthTable differs = value.cofactor(input, false) ^ value.cofactor(input, true);
  return !(differs & care.cofactor(input, false) & care.cofactor(input, true)).is_zero();
}

/// The bits of `number` at the places of `places`.
size_t spread(size_t number, std::span<const int> places) {
  size_t result = 0;
  for (size_t k = 0; k < places.size(); ++k) result |= (number >> k & 1) << places[k];
  return result;
}

/// Some inputs and the kinds of functions that the others are, for each of their values.
struct BoundSet {
  std::vector<int> bound;
  std::vector<int> free;        // at most 6, so that a function of them is a word
  std::vector<int> kind;        // of each value of the bound inputs
  std::vector<uint64_t> kinds;  // the entries of the free inputs
  int bits = 0;                 // that tell the kinds apart

  int64_t cost() const { return bits + general_cost(static_cast<int>(free.size()) + bits); }
};

/// With at most `most_kinds`, or nothing.
std::optional<BoundSet> bound_set(const TruthTable& value, size_t mask, size_t most_kinds) {
  BoundSet set;
  for (int i = 0; i < value.inputs(); ++i) ((mask >> i & 1) != 0 ? set.bound : set.free).push_back(i);
  std::array<size_t, 64> free_places = {};
  const size_t free_count = size_t{1} << set.free.size();
  for (size_t f = 0; f < free_count; ++f) free_places[f] = spread(f, set.free);
  for (size_t b = 0; b < size_t{1} << set.bound.size(); ++b) {
    const size_t place = spread(b, set.bound);
    uint64_t column = 0;
    for (size_t f = 0; f < free_count; ++f) column |= uint64_t{value.get(place | free_places[f])} << f;
    const auto found = std::ranges::find(set.kinds, column);
    set.kind.push_back(static_cast<int>(found - set.kinds.begin()));
    if (found != set.kinds.end()) continue;
    if (set.kinds.size() == most_kinds) return std::nullopt;
    set.kinds.push_back(column);
  }
  set.bits = static_cast<int>(std::bit_width(set.kinds.size() - 1));
  return set;
}

/// The cheapest, if one is cheaper than `cost`.
std::optional<BoundSet> best_bound_set(const TruthTable& value, int64_t cost) {
  constexpr size_t kMostKinds = 8;
  const int inputs = value.inputs();
  std::optional<BoundSet> best;
  if (inputs > 2 * kMost) return best;
  for (size_t mask = 0; mask < size_t{1} << inputs; ++mask) {
    const int bound = std::popcount(mask);
    if (bound < 2 || bound > kMost || inputs - bound > kMost) continue;
    size_t most_kinds = 0;  // with which it would be better
    for (int bits = 1; size_t{1} << bits <= kMostKinds && bits < bound; ++bits) {
      if (bits + general_cost(inputs - bound + bits) < cost) most_kinds = size_t{1} << bits;
    }
    if (most_kinds == 0) continue;
    std::optional<BoundSet> set = bound_set(value, mask, most_kinds);
    if (!set || set->cost() >= cost) continue;
    cost = set->cost();
    best = std::move(set);
  }
  return best;
}

int support(const TruthTable& value, const TruthTable& care) {
  int count = 0;
  for (int i = 0; i < value.inputs(); ++i) count += depends(value, care, i) ? 1 : 0;
  return count;
}

Choice choice_by(const TruthTable& value, const TruthTable& care, std::vector<int> by) {
  Choice choice{std::move(by), {value}, {care}, 1};
  for (auto input = choice.by.rbegin(); input != choice.by.rend(); ++input) {  // the higher place first
    std::vector<TruthTable> values;
    std::vector<TruthTable> cares;
    for (size_t i = 0; i < choice.values.size(); ++i) {
      for (const bool chosen : {false, true}) {
        values.push_back(choice.values[i].cofactor(*input, chosen));
        cares.push_back(choice.cares[i].cofactor(*input, chosen));
      }
    }
    choice.values = std::move(values);
    choice.cares = std::move(cares);
  }
  for (size_t i = 0; i < choice.values.size(); ++i) {
    const int inputs = support(choice.values[i], choice.cares[i]);
    if (inputs >= 2 && std::find(choice.values.begin(), choice.values.begin() + static_cast<ptrdiff_t>(i),
                                 choice.values[i]) == choice.values.begin() + static_cast<ptrdiff_t>(i))
      choice.cost += general_cost(inputs);
  }
  return choice;
}

/// By one input, or by that one and the best beside it.
Choice best_choice(const TruthTable& value, const TruthTable& care) {
  const int inputs = value.inputs();
  Choice best = choice_by(value, care, {0});
  for (int a = 1; a < inputs; ++a) {
    Choice choice = choice_by(value, care, {a});
    if (choice.cost < best.cost) best = std::move(choice);
  }
  if (inputs == kMost + 1) return best;
  const int first = best.by.front();
  for (int second = 0; second < inputs; ++second) {
    if (second == first) continue;
    Choice choice = choice_by(value, care, {std::min(first, second), std::max(first, second)});
    if (choice.cost < best.cost) best = std::move(choice);
  }
  return best;
}

}  // namespace

TableLiteral LutDecomposition::function(TruthTable value, TruthTable care,
                                        std::vector<TableLiteral> literals) {
  for (size_t i = literals.size(); i-- > 0;) {
    const int at = static_cast<int>(i);
    const LutNetlist::Bit bit = LutNetlist::bit_of(literals[i]);
    size_t same = 0;
    while (same < i && LutNetlist::bit_of(literals[same]) != bit) ++same;
    if (bit == LutNetlist::kZero) {
      value = value.cofactor(at, literals[i] == LutNetlist::kTrue);
      care = care.cofactor(at, literals[i] == LutNetlist::kTrue);
    } else if (same < i) {
      const bool inverted = literals[same] != literals[i];
      value = value.joined(at, static_cast<int>(same), inverted);
      care = care.joined(at, static_cast<int>(same), inverted);
    } else if (!depends(value, care, at)) {
      const TruthTable low = value.cofactor(at, false) & care.cofactor(at, false);
      const TruthTable high = value.cofactor(at, true) & care.cofactor(at, true);
      value = low | high;
      care = care.cofactor(at, false) | care.cofactor(at, true);
    } else {
      continue;
    }
    literals.erase(literals.begin() + static_cast<ptrdiff_t>(i));
  }
  value = value & care;
  if (value.is_zero()) return LutNetlist::kFalse;
  if ((~value & care).is_zero()) return LutNetlist::kTrue;
  if (value.inputs() <= kMost) return netlist_.lut(value.word(), std::move(literals));
  const bool inverted = value.get(0);
  if (inverted) value = ~value & care;
  const auto [entry, is_new] = known_.try_emplace({value, care, literals}, LutNetlist::kFalse);
  if (is_new) entry->second = decomposed(value, care, literals);
  return inverted ? LutNetlist::inverse(entry->second) : entry->second;
}

TableLiteral LutDecomposition::decomposed(const TruthTable& value, const TruthTable& care,
                                          const std::vector<TableLiteral>& literals) {
  const Choice choice = best_choice(value, care);
  const std::optional<BoundSet> set = best_bound_set(value, choice.cost);
  if (!set) return chosen(choice, literals);
  std::vector<TableLiteral> inputs;
  for (const int input : set->free) inputs.push_back(literals[static_cast<size_t>(input)]);
  std::vector<TableLiteral> bound;
  for (const int input : set->bound) bound.push_back(literals[static_cast<size_t>(input)]);
  for (int bit = 0; bit < set->bits; ++bit) {
    uint64_t table = 0;
    for (size_t b = 0; b < set->kind.size(); ++b)
      table |= static_cast<uint64_t>(set->kind[b] >> bit & 1) << b;
    inputs.push_back(netlist_.lut(table, bound));
  }
  TruthTable rest(static_cast<int>(inputs.size()));
  TruthTable known(rest.inputs());
  for (size_t kind = 0; kind < set->kinds.size(); ++kind) {
    for (size_t f = 0; f < size_t{1} << set->free.size(); ++f) {
      const size_t entry = kind << set->free.size() | f;
      rest.set(entry, (set->kinds[kind] >> f & 1) != 0);
      known.set(entry);
    }
  }
  return function(std::move(rest), std::move(known), std::move(inputs));
}

TableLiteral LutDecomposition::chosen(const Choice& choice, const std::vector<TableLiteral>& literals) {
  std::vector<TableLiteral> rest;
  std::vector<TableLiteral> inputs;
  for (size_t i = 0; i < literals.size(); ++i) {
    const bool chooses = std::ranges::find(choice.by, static_cast<int>(i)) != choice.by.end();
    (chooses ? inputs : rest).push_back(literals[i]);
  }
  const size_t ways = choice.values.size();
  for (size_t i = 0; i < ways; ++i) inputs.push_back(function(choice.values[i], choice.cares[i], rest));
  uint64_t table = 0;
  const size_t bits = choice.by.size();
  for (size_t entry = 0; entry < size_t{1} << inputs.size(); ++entry) {
    const size_t way = entry & (ways - 1);
    table |= static_cast<uint64_t>(entry >> (bits + way) & 1) << entry;
  }
  return netlist_.lut(table, std::move(inputs));
}

}  // namespace detent
