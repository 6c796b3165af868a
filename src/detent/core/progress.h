#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace detent {

/// A progress line on standard error, of work that has taken a second or more: on a terminal one line redrawn
/// at most ten times a second, with a bar, rate and remaining time; elsewhere a plain line now and then, at
/// first after a second, then ever more rarely, at last every 30 seconds. Where the total is 0, as nobody
/// knows it, the line says how long the work has taken.
class Progress {
 public:
  /// `begin` of the `total` steps were done before, by another process. A `plain_interval` gives plain lines
  /// every so many steps instead. One that is not `shown` stays silent.
  struct Options {
    int64_t begin = 0;
    int64_t plain_interval = 0;
    bool shown = true;
  };
  Progress(const std::string& label, int64_t total, Options options);
  Progress(const std::string& label, int64_t total) : Progress(label, total, Options{}) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of `total` steps; `note` (a loss, say) is shown after them.
  void update(int64_t done, const std::string& note = "");
  /// Removes the bar, so that ordinary output can follow. Called by the destructor too.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  bool is_due(int64_t done, Clock::time_point now) const;
  void draw(int64_t done, const std::string& note);
  void draw_elapsed(double elapsed, const std::string& note);

  std::string label_;
  int64_t total_;
  Options options_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point due_;  // when the next line may be drawn
};

/// "1:02:03", "2:03", "0:07".
std::string duration_text(double seconds);

}  // namespace detent
