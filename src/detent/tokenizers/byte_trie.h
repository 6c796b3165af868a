#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace detent {

/// Texts by their bytes, to find all that begin at a position of another text.
class ByteTrie {
 public:
  ByteTrie() { roots_.fill(kNone); }

  /// A text that is there gets the new value.
  void insert(std::string_view text, int64_t value);
  bool empty() const { return values_.empty(); }

  struct Match {
    size_t length;
    int64_t value;
  };
  /// The longest inserted text that `text` has at `from`; empty ones do not count.
  std::optional<Match> longest(std::string_view text, size_t from) const;

  /// Calls `visit(length, value)` for each inserted text that `text` has at `from`, shortest first.
  template <class Visit>
  void each_prefix(std::string_view text, size_t from, const Visit& visit) const {
    uint32_t node = kNone;
    for (size_t i = from; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node == kNone) return;
      if (values_[node] >= 0) visit(i + 1 - from, values_[node]);
    }
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// Below the root where `node` is kNone.
  uint32_t child(uint32_t node, unsigned char byte) const;
  void rehash();

  std::array<uint32_t, 256> roots_{};
  std::vector<int64_t> values_;  // of each node; -1: none
  // An open hash table from (node, byte) to the child, with a power of two of slots.
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> children_;
  size_t edges_ = 0;
};

}  // namespace detent
