#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace detent {

/// A file known to signal handlers while this object lives: a temporary file or folder, removed when a signal
/// ends the process, or a mapped file, named when it was truncated.
class OpenFile {
 public:
  enum class Temporary { kFile, kFolder };

  /// A temporary file or folder, which `create` makes, so that no signal comes between the two. It says
  /// whether it did, and may neither throw nor allocate memory.
  OpenFile(std::string path, const std::function<bool()>& create, Temporary kind = Temporary::kFile);
  OpenFile(std::string path, std::span<const std::byte> mapping);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const std::string& path() const { return path_; }
  /// The mapped file that contains `address`; empty if none.
  static std::string mapped_at(const void* address);

 private:
  friend struct OpenFileHandlers;

  void enter();

  std::string path_;
  std::span<const std::byte> mapping_;
  std::optional<Temporary> temporary_;
  bool is_listed_ = false;
  pid_t process_;  // a fork's child does not own its parent's files
  OpenFile* next_ = nullptr;
  OpenFile* previous_ = nullptr;
};

/// From now on SIGINT, SIGTERM and SIGHUP end the process as before, but remove its temporary files and
/// folders first; signals that are ignored stay so. SIGBUS from a mapped file ends it with status 1 and
/// "detent: error: FILE was truncated while it was read". Programs call it once, before other threads start.
void handle_signals_for_open_files();

/// Removes a folder and its contents. For signal handlers: allocates no memory, and gives up on errors.
void remove_folder_in_handler(const char* path);

}  // namespace detent
