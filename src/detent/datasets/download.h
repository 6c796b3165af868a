#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "detent/core/error.h"

namespace detent {

/// A download that another attempt may bring to an end: a connection that broke, stalled or took too long, a
/// server that is busy (408, 425, 429 or 5xx).
class TransientError : public Error {
 public:
  using Error::Error;
};

struct Download {
  std::string url;  // http or https; so is what it redirects to, up to 10 times
  /// Where the bytes go. What it holds already is taken as the beginning, and the server asked for the rest;
  /// one that sends all of it again replaces it. A regular file: no symbolic link is followed.
  std::filesystem::path target;
  uint64_t limit = 0;  // more bytes are an Error
  /// The attempt ends when for so long there is no connection, or fewer than `least_speed` bytes a second
  /// come.
  std::chrono::seconds patience{30};
  int64_t least_speed = 1;
  /// For the whole attempt; none: as long as it takes.
  std::optional<std::chrono::milliseconds> time_limit = std::nullopt;
  /// Bytes in the file, and how many there will be (0: the server did not say).
  std::function<void(uint64_t done, uint64_t total)> progress = {};
};

/// Makes one attempt with libcurl, which is loaded now and not when the program starts: that would cost every
/// command 5 ms. What was received stays in the file whatever happens. Throws TransientError or Error naming
/// the address and the reason.
void download(const Download& request);

}  // namespace detent
