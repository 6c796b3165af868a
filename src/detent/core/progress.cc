#include "detent/core/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

namespace detent {
namespace {

constexpr int kBarWidth = 24;
constexpr auto kRedrawInterval = std::chrono::milliseconds(100);

/// Work goes on, and what it made is saved, where the terminal was closed and nobody sees it: no error.
void show(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::max(0.0, seconds) + 0.5);
  const int64_t hours = whole / 3600;
  const int64_t minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

Progress::Progress(std::string label, int64_t total, int64_t plain_interval, int64_t begin)
    : label_(std::move(label)),
      total_(total),
      plain_interval_(plain_interval),
      begin_(begin),
      terminal_(isatty(STDERR_FILENO) == 1),
      last_draw_(start_) {}

Progress::~Progress() { finish(); }

void Progress::update(int64_t done, const std::string& note) {
  const auto now = Clock::now();
  const bool due =
      terminal_ ? now - last_draw_ >= kRedrawInterval || done == total_ : done % plain_interval_ == 0;
  if (!due) return;
  last_draw_ = now;
  draw(done, note);
}

void Progress::draw(int64_t done, const std::string& note) {
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  const double rate = elapsed > 0 ? static_cast<double>(done - begin_) / elapsed : 0;
  const double remaining = rate > 0 ? static_cast<double>(total_ - done) / rate : 0;
  const std::string numbers =
      fmt::format("{}/{}  {:.1f}/s  {}  ETA {}", done, total_, rate, note, duration_text(remaining));
  if (terminal_) {
    const int64_t filled = total_ > 0 ? done * kBarWidth / total_ : 0;
    show(fmt::format("\r\033[K{} [{:#<{}}{: <{}}] {}", label_, "", filled, "", kBarWidth - filled, numbers));
  } else {
    show(fmt::format("{} {}\n", label_, numbers));
  }
  drawn_ = true;
}

void Progress::finish() {
  if (drawn_ && terminal_) show("\r\033[K");
  drawn_ = false;
}

}  // namespace detent
