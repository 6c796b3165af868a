#include "detent/statistics/statistic.h"

namespace detent {
namespace {

/// data: all samples as nested lists of shape [samples, ...]; count: the samples; size_in_bytes: 4 a value.
/// Ordered by the indices of the samples (Recording).
struct Record {
  static constexpr const char* kName = "record";
  static constexpr const char* kHelp = "the samples themselves";

  int64_t max_bytes = int64_t{64} << 20;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("max_bytes", self.max_bytes, "an error beyond so many bytes of values", Between{0, 1e15});
  }

  Needs needs() const { return {.record_bytes = max_bytes}; }
  Table result(const Accumulators& data) const {
    const Recording& recording = data.recording();
    List samples;
    for (const std::vector<float>& sample : recording.samples()) {
      size_t next = 0;
      samples.push_back(nested(recording.sample_shape(), 0, sample, next));
    }
    return {{"data", std::move(samples)}, {"count", data.samples()}, {"size_in_bytes", recording.bytes()}};
  }

  static Value nested(const Shape& shape, size_t dim, const std::vector<float>& values, size_t& next) {
    if (dim == shape.size()) return double{values[next++]};
    List list;
    for (int64_t i = 0; i < shape[dim]; ++i) list.push_back(nested(shape, dim + 1, values, next));
    return list;
  }
};

}  // namespace

StatisticInfo record_statistic() { return statistic_info<Record>(); }

}  // namespace detent
