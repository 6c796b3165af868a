#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace detent {

/// A progress line on standard error: on a terminal one line redrawn at most ten times a second, with a bar,
/// rate and remaining time; elsewhere a plain line every `plain_interval` steps.
class Progress {
 public:
  /// `begin` of the `total` steps were done before, by another process.
  Progress(std::string label, int64_t total, int64_t plain_interval, int64_t begin = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of `total` steps; `note` (a loss, say) is shown behind them.
  void update(int64_t done, const std::string& note);
  /// Removes the bar, so that ordinary output can follow. Called by the destructor too.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(int64_t done, const std::string& note);

  std::string label_;
  int64_t total_;
  int64_t plain_interval_;
  int64_t begin_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_draw_;
};

/// "1:02:03", "2:03", "0:07".
std::string duration_text(double seconds);

}  // namespace detent
