#pragma once

#include <filesystem>
#include <mutex>
#include <string>

namespace detent::python {

/// For what passes and searches write beside the network, which the module gives as results.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path path() const { return path_; }

 private:
  std::string path_;
};

/// Waits for another thread's work with the generator that all commands draw from, as long as nobody
/// interrupts.
std::unique_lock<std::timed_mutex> lock_generator();

}  // namespace detent::python
