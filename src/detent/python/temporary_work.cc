#include "detent/python/work.h"

#include <stdlib.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "detent/core/error.h"
#include "detent/core/interruption.h"

namespace detent::python {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() : path_((fs::temp_directory_path() / "detent-XXXXXX").string()) {
  if (mkdtemp(path_.data()) == nullptr)
    fail("{}: cannot make a temporary folder: {}", path_, std::strerror(errno));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::unique_lock<std::timed_mutex> lock_generator() {
  static std::timed_mutex mutex;
  std::unique_lock<std::timed_mutex> lock(mutex, std::defer_lock);
  while (!lock.try_lock_for(std::chrono::milliseconds(50))) check_interruption();
  return lock;
}

}  // namespace detent::python
