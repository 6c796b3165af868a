// Any bytes as the state of a collector: refused, or taken as a state that results, merging and another round
// through bytes can work with. The header and the checksum are put right, since random bytes never pass them.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "detent/core/error.h"
#include "detent/statistics/collector.h"
#include "detent/statistics/state_bytes.h"

namespace {

using detent::Collector;
using detent::Table;
using detent::Value;

/// Every statistic, reducing all dimensions, or one by one over the kept ones.
Table statistics(uint8_t choice) {
  Table table;
  for (const detent::StatisticInfo& info : detent::all_statistics()) {
    Table options;
    for (const detent::FieldDescription& field : info.options) {
      if (field.name == "dims" && choice % 3 != 0)
        options["dims"] = choice % 3 == 1 ? Value("none") : Value(Table{{"keep", detent::List{1}}});
      if (field.name == "exact_values" && choice >= 128) options["exact_values"] = 4;
      if (field.name == "max_bytes") options["max_bytes"] = 4096;
    }
    table[info.name] = options;
  }
  return table;
}

/// `body` behind the header that a collector of these statistics writes, with its checksum.
std::vector<std::byte> state_with(const Collector& empty, const uint8_t* body, size_t size) {
  const std::vector<std::byte> blank = empty.serialize();
  size_t header = sizeof(uint32_t) + sizeof(uint16_t);
  detent::StateReader reader(std::span(blank).subspan(header));
  reader.text();
  header = blank.size() - reader.left();
  std::vector<std::byte> state(blank.begin(), blank.begin() + static_cast<std::ptrdiff_t>(header));
  const auto* bytes = reinterpret_cast<const std::byte*>(body);
  state.insert(state.end(), bytes, bytes + size);
  const uint64_t checksum = detent::state_checksum(state);
  state.resize(state.size() + sizeof(checksum));
  std::memcpy(state.data() + state.size() - sizeof(checksum), &checksum, sizeof(checksum));
  return state;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Table table = statistics(data[0]);
  Collector collector(table, "fuzz");
  try {
    collector.deserialize(state_with(collector, data + 1, size - 1));
  } catch (const detent::Error&) {
    return 0;
  }
  const std::vector<std::byte> written = collector.serialize();
  Collector again(table, "fuzz");
  again.deserialize(written);
  if (again.serialize() != written) std::abort();
  Collector merged(table, "fuzz");
  merged.merge(collector);
  if (merged.serialize() != written) std::abort();
  for (const std::string& name : collector.names()) {
    try {
      collector.result(name);
    } catch (const detent::Error&) {
    }
  }
  return 0;
}
