#include "detent/tokenizers/byte_trie.h"

namespace detent {
namespace {

constexpr uint64_t kEmptyKey = UINT64_MAX;

uint64_t edge_key(uint32_t node, unsigned char byte) { return uint64_t{node} << 8 | byte; }

size_t first_place(uint64_t key, size_t places) {
  return static_cast<size_t>((key * 0x9E3779B97F4A7C15U) >> 20) & (places - 1);
}

}  // namespace

uint32_t ByteTrie::child(uint32_t node, unsigned char byte) const {
  if (node == kNone) return roots_[byte];
  if (keys_.empty()) return kNone;
  const uint64_t key = edge_key(node, byte);
  for (size_t place = first_place(key, keys_.size());; place = (place + 1) & (keys_.size() - 1)) {
    if (keys_[place] == key) return children_[place];
    if (keys_[place] == kEmptyKey) return kNone;
  }
}

void ByteTrie::rehash() {
  constexpr size_t kSmallest = 64;
  const std::vector<uint64_t> old_keys = std::move(keys_);
  const std::vector<uint32_t> old_children = std::move(children_);
  const size_t places = old_keys.empty() ? kSmallest : 2 * old_keys.size();
  keys_.assign(places, kEmptyKey);
  children_.assign(places, kNone);
  for (size_t i = 0; i < old_keys.size(); ++i) {
    if (old_keys[i] == kEmptyKey) continue;
    size_t place = first_place(old_keys[i], places);
    while (keys_[place] != kEmptyKey) place = (place + 1) & (places - 1);
    keys_[place] = old_keys[i];
    children_[place] = old_children[i];
  }
}

void ByteTrie::insert(std::string_view text, int64_t value) {
  if (text.empty()) return;
  uint32_t node = kNone;
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    uint32_t next = child(node, byte);
    if (next == kNone) {
      next = static_cast<uint32_t>(values_.size());
      values_.push_back(-1);
      if (node == kNone) {
        roots_[byte] = next;
      } else {
        if (2 * (edges_ + 1) > keys_.size()) rehash();
        const uint64_t key = edge_key(node, byte);
        size_t place = first_place(key, keys_.size());
        while (keys_[place] != kEmptyKey) place = (place + 1) & (keys_.size() - 1);
        keys_[place] = key;
        children_[place] = next;
        ++edges_;
      }
    }
    node = next;
  }
  values_[node] = value;
}

std::optional<ByteTrie::Match> ByteTrie::longest(std::string_view text, size_t from) const {
  std::optional<Match> found;
  each_prefix(text, from, [&](size_t length, int64_t value) { found = Match{length, value}; });
  return found;
}

}  // namespace detent
