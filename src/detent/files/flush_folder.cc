#include "detent/files/flush_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "detent/core/error.h"

namespace detent {

void flush_folder(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0 && errno == EACCES) return;
  if (descriptor < 0) fail("cannot open {}: {}", folder.string(), std::strerror(errno));
  const int reason = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  if (reason != 0 && reason != EINVAL) fail("cannot write {}: {}", folder.string(), std::strerror(reason));
}

}  // namespace detent
