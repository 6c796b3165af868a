#include "detent/training/metrics_log.h"

#include <chrono>
#include <vector>

#include "detent/files/json.h"

namespace detent {
namespace {

constexpr const char* kLines = "metrics";
constexpr const char* kEvents = "events";

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

uint64_t kept(const Table& keep, const char* name) {
  const Value* size = keep.find(name);
  const int64_t* bytes = size == nullptr ? nullptr : size->get_if<int64_t>();
  return bytes == nullptr || *bytes < 0 ? 0 : static_cast<uint64_t>(*bytes);
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& lines, const std::optional<std::filesystem::path>& events,
                       const Table& keep)
    : lines_(lines, kept(keep, kLines)) {
  if (events) events_.emplace(*events, kept(keep, kEvents), now());
}

void MetricsLog::write(const StepReport& report) {
  write("train", report.epoch, report.global_step, report.training,
        {{"learning_rate", report.learning_rate}, {"samples_per_second", report.samples_per_second}});
}

void MetricsLog::write(const EpochReport& report) {
  write("train_epoch", report.epoch, report.global_step, report.training,
        {{"samples_per_second", report.samples_per_second}});
  write("validation", report.epoch, report.global_step, report.validation,
        {{"learning_rate", report.learning_rate}});
  if (!events_ || report.quantizers.empty()) return;
  std::vector<ScalarEvent> scalars;
  for (const auto& [name, value] : report.quantizers) scalars.push_back({name, static_cast<float>(value)});
  events_->write(now(), report.global_step, scalars);
}

void MetricsLog::write(const char* split, int64_t epoch, int64_t step, const Metrics& metrics,
                       const Table& others) {
  const double time = now();
  Table line = {{"split", split},
                {"step", step},
                {"epoch", epoch},
                {"loss", metrics.loss()},
                {"accuracy", metrics.accuracy()}};
  for (const auto& [name, value] : others) line[name] = value;
  line["time"] = time;
  lines_.append(json_text(line, JsonLayout::kOneLine) + "\n");
  if (!events_) return;
  std::vector<ScalarEvent> scalars;
  for (const char* name : {"loss", "accuracy", "learning_rate", "samples_per_second"}) {
    const Value* value = line.find(name);
    if (value == nullptr) continue;
    scalars.push_back({fmt::format("{}/{}", split, name), static_cast<float>(*value->get_if<double>())});
  }
  events_->write(time, step, scalars);
}

Table MetricsLog::sizes() {
  lines_.flush();
  Table sizes = {{kLines, static_cast<int64_t>(lines_.size())}};
  if (events_) {
    events_->flush();
    sizes[kEvents] = static_cast<int64_t>(events_->size());
  }
  return sizes;
}

}  // namespace detent
