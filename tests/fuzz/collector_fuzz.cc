// Any bytes as the state of a collector, or the state of some values with some bytes changed: refused, or
// taken as a state that results, merging and another round through bytes can work with. The header and the
// checksum are put right, since random bytes never pass them.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/xxh64.h"
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

size_t header_size(std::span<const std::byte> state) {
  constexpr size_t kMagicAndVersion = sizeof(uint32_t) + sizeof(uint16_t);
  detent::StateReader reader(state.subspan(kMagicAndVersion));
  reader.text();
  return state.size() - reader.left();
}

/// Overwrites the last 8 bytes.
void put_checksum(std::vector<std::byte>& state) {
  const uint64_t checksum = detent::xxh64(std::span(state).first(state.size() - sizeof(uint64_t)));
  std::memcpy(state.data() + state.size() - sizeof(checksum), &checksum, sizeof(checksum));
}

/// `body` after the header that a collector of these statistics writes, with its checksum.
std::vector<std::byte> state_with(const Collector& empty, std::span<const std::byte> body) {
  std::vector<std::byte> state = empty.serialize();
  state.resize(header_size(state));
  state.insert(state.end(), body.begin(), body.end());
  state.resize(state.size() + sizeof(uint64_t));
  put_checksum(state);
  return state;
}

/// The first byte says how many changes (position in 2 bytes, new byte) follow; the rest are values.
std::vector<std::byte> changed_state(Collector& collector, std::span<const std::byte> data) {
  const size_t changes = std::min(std::to_integer<size_t>(data[0]) % 8, (data.size() - 1) / 3);
  const std::span<const std::byte> values = data.subspan(1 + 3 * changes);
  const auto samples = static_cast<int64_t>(values.size() / (2 * sizeof(float)));
  if (samples > 0) {
    detent::Tensor batch(detent::DType::kFloat32, {samples, 2});
    std::memcpy(batch.bytes().data(), values.data(), batch.byte_size());
    collector.update(batch, 0);
  }
  std::vector<std::byte> state = collector.serialize();
  const size_t header = header_size(state);
  const size_t body = state.size() - header - sizeof(uint64_t);
  for (size_t i = 0; i < changes && body > 0; ++i) {
    const std::byte* change = data.data() + 1 + 3 * i;
    const size_t at = std::to_integer<size_t>(change[0]) << 8 | std::to_integer<size_t>(change[1]);
    state[header + at % body] = change[2];
  }
  put_checksum(state);
  return state;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const Table table = statistics(data[0]);
  const std::span<const std::byte> rest(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  Collector collector(table, "fuzz");
  try {
    Collector source(table, "fuzz");
    const bool changed = (data[0] & 64) != 0;
    collector.deserialize(changed ? changed_state(source, rest) : state_with(source, rest));
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
