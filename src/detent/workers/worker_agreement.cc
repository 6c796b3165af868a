#include "detent/workers/worker_agreement.h"

#include <string>

#include "detent/core/error.h"
#include "detent/files/json.h"

namespace detent {
namespace {

/// Nested tables as keys with dots.
void flatten(const Table& table, const std::string& prefix, Table& target) {
  for (const auto& [key, value] : table) {
    if (const Table* nested = value.get_if<Table>(); nested != nullptr && !nested->empty()) {
      flatten(*nested, prefix + key + ".", target);
    } else {
      target[prefix + key] = value_text(value);
    }
  }
}

std::string text_of(const Table& table, const std::string& key) {
  const Value* value = table.find(key);
  return value == nullptr ? "nothing" : *value->get_if<std::string>();
}

void check_same(const Table& first, const Table& other, size_t rank) {
  std::vector<std::string> keys = first.keys();
  for (const std::string& key : other.keys()) {
    if (!first.contains(key)) keys.push_back(key);
  }
  for (const std::string& key : keys) {
    const std::string expected = text_of(first, key);
    const std::string got = text_of(other, key);
    if (expected != got) {
      fail("the workers were started differently: {} is {} at worker 0, {} at worker {}", key, expected, got,
           rank);
    }
  }
}

}  // namespace

void check_workers_agree(const Table& mine, ProcessGroup& group) {
  if (group.size() == 1) return;
  Table flat;
  flatten(mine, "", flat);
  const std::string text = json_text(flat, JsonLayout::kOneLine);
  Table first;
  size_t rank = 0;
  for (const std::vector<std::byte>& bytes : group.all_gather(std::as_bytes(std::span(text)))) {
    const std::string name = "settings of worker " + std::to_string(rank);
    Value parsed = parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name);
    Table* settings = parsed.get_if<Table>();
    if (settings == nullptr) fail("{}: got {}, expected a table", name, parsed.kind_name());
    if (rank == 0) {
      first = std::move(*settings);
    } else {
      check_same(first, *settings, rank);
    }
    ++rank;
  }
}

}  // namespace detent
