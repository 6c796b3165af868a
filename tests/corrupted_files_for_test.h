#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>

#include "detent/core/sanitizers_for_test.h"

namespace detent {

/// Slowdown of allocations and small copies under ASan, which is the largest: 12 was measured.
constexpr double kSlowdown = kSanitizersTakeMemory ? 15 : 1;

/// Seconds of CPU time of this process: other processes do not lengthen them as they do those of a clock.
inline double cpu_seconds() {
  timespec time;
  EXPECT_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time), 0);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// A file that lives in memory and is rewritten for every corruption.
class RewrittenFile {
 public:
  RewrittenFile() : descriptor_(memfd_create("corrupted", MFD_CLOEXEC)) {}
  ~RewrittenFile() { close(descriptor_); }
  RewrittenFile(const RewrittenFile&) = delete;
  RewrittenFile& operator=(const RewrittenFile&) = delete;

  std::filesystem::path path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }
  void write(std::string_view bytes) const {
    const auto size = static_cast<ssize_t>(bytes.size());
    ASSERT_EQ(ftruncate(descriptor_, size), 0);
    ASSERT_EQ(pwrite(descriptor_, bytes.data(), bytes.size(), 0), size);
  }

 private:
  int descriptor_;
};

/// Flips bits, overwrites bytes, cuts off, moves and repeats parts; half of the time near the end or the
/// beginning, where the directory and the pickles are.
class Corruption {
 public:
  explicit Corruption(unsigned seed) : random_(seed) {}

  std::string apply(std::string text) {
    for (size_t i = 1 + below(4); i > 0 && !text.empty(); --i) change(text);
    return text;
  }

 private:
  size_t below(size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random_); }
  size_t position(const std::string& text) {
    constexpr size_t kNear = 8192;
    const size_t near = std::min(text.size(), kNear);
    const size_t choice = below(4);
    if (choice == 0) return below(near);
    return choice == 1 ? text.size() - 1 - below(near) : below(text.size());
  }
  void change(std::string& text) {
    const size_t at = position(text);
    const size_t length = std::min<size_t>(1 + below(300), text.size() - at);
    switch (below(6)) {
      case 0:
        text.resize(at);
        break;
      case 1:
        text[at] = static_cast<char>(random_());
        break;
      case 2:  // the largest numbers
        text.replace(at, std::min<size_t>(length, 8), std::min<size_t>(length, 8),
                     below(2) == 0 ? '\xff' : '\x7f');
        break;
      case 3:
        text.insert(position(text), text.substr(at, length));
        break;
      case 4: {
        const std::string part = text.substr(at, length);
        const size_t target = position(text);
        text.replace(target, std::min(part.size(), text.size() - target), part);
        break;
      }
      default:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
    }
  }

  std::mt19937 random_;
};

}  // namespace detent
