#include "detent/cli/print.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "detent/core/error.h"
#include "detent/core/terminal.h"

namespace detent {

void print(std::string_view text) {
  const std::string shown = printable(text);
  const size_t written = std::fwrite(shown.data(), 1, shown.size(), stdout);
  if (written == shown.size() && std::fflush(stdout) == 0) return;
  if (errno != EPIPE) fail("cannot write to standard output: {}", std::strerror(errno));
}

}  // namespace detent
