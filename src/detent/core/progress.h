#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace detent {

/// A progress line on standard error for work beyond a second: on a terminal one line with bar, rate and
/// remaining time, redrawn at most ten times a second; elsewhere plain lines, from one after a second to one
/// every 30 seconds. With an unknown total (0) it shows elapsed time.
class Progress {
 public:
  /// `begin` of `total` steps were done by an earlier process. `plain_interval` prints a plain line every so
  /// many steps instead. Silent unless `shown`.
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
  /// Removes the bar before ordinary output. The destructor calls it too.
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
