#include "detent/core/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include "detent/core/interruption.h"
#include "detent/core/text.h"

namespace detent {
namespace {

constexpr int kBarWidth = 24;
constexpr auto kFirstLine = std::chrono::seconds(1);
constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
constexpr auto kMostBetweenLines = std::chrono::seconds(30);

/// Work goes on, and what it made is saved, where the terminal was closed and nobody sees it: no error.
void show(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

std::string duration_text(double seconds) {
  const int64_t whole = std::llround(std::max(0.0, seconds));
  const int64_t hours = whole / 3600;
  const int64_t minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

Progress::Progress(const std::string& label, int64_t total, Options options)
    : label_(printable_line(label)),
      total_(total),
      options_(options),
      terminal_(is_terminal(STDERR_FILENO)),
      due_(start_ + kFirstLine) {}

Progress::~Progress() { finish(); }

bool Progress::is_due(int64_t done, Clock::time_point now) const {
  if (!options_.shown) return false;
  if (!terminal_ && options_.plain_interval > 0) return done % options_.plain_interval == 0;
  return now >= due_;
}

void Progress::update(int64_t done, const std::string& note) {
  check_interruption();
  const auto now = Clock::now();
  if (!is_due(done, now)) return;
  const auto rarer = std::min<Clock::duration>(now - start_, kMostBetweenLines);
  due_ = now + (terminal_ ? Clock::duration(kRedrawInterval) : rarer);
  draw(done, printable_line(note));
}

void Progress::draw(int64_t done, const std::string& note) {
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  if (total_ == 0) return draw_elapsed(elapsed, note);
  const double rate = elapsed > 0 ? static_cast<double>(done - options_.begin) / elapsed : 0;
  const double remaining = rate > 0 ? static_cast<double>(total_ - done) / rate : 0;
  const std::string numbers = fmt::format("{}/{}  {:.1f}/s  {}{}ETA {}", done, total_, rate, note,
                                          note.empty() ? "" : "  ", duration_text(remaining));
  if (terminal_) {
    const int64_t filled = std::min(done, total_) * kBarWidth / total_;
    const std::string line =
        fmt::format("{} [{:#<{}}{: <{}}] {}", label_, "", filled, "", kBarWidth - filled, numbers);
    // A line that wrapped could not be taken back.
    show(fmt::format("\r\033[K{}", first_columns(line, terminal_columns(STDERR_FILENO) - 1)));
  } else {
    show(fmt::format("{} {}\n", label_, numbers));
  }
  drawn_ = true;
}

void Progress::draw_elapsed(double elapsed, const std::string& note) {
  const std::string line = label_ + (note.empty() ? "" : " " + note) + "  " + duration_text(elapsed);
  show(terminal_ ? fmt::format("\r\033[K{}", first_columns(line, terminal_columns(STDERR_FILENO) - 1))
                 : line + "\n");
  drawn_ = true;
}

void Progress::finish() {
  if (drawn_ && terminal_) show("\r\033[K");
  drawn_ = false;
}

}  // namespace detent
