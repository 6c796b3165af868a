#include "detent/files/open_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace detent {
namespace {

constexpr int kDeepest = 16;

/// As the kernel fills it in (getdents64): readdir takes memory.
struct Entry {
  uint64_t inode;
  int64_t offset;
  uint16_t size;
  uint8_t type;
  char name[1];
};

bool is_dots(const char* name) { return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0; }

/// Removing entries may move those that follow: it is read from the start until nothing goes any more.
void remove_content(int folder, int depth) {
  alignas(Entry) char buffer[2048];
  for (bool removes = true; removes;) {
    removes = false;
    lseek(folder, 0, SEEK_SET);
    for (long size = 0; (size = syscall(SYS_getdents64, folder, buffer, sizeof(buffer))) > 0;) {
      for (long at = 0; at < size;) {
        const auto* entry = reinterpret_cast<const Entry*>(buffer + at);
        const char* name = buffer + at + offsetof(Entry, name);
        at += entry->size;
        if (is_dots(name)) continue;
        if (unlinkat(folder, name, 0) == 0) {
          removes = true;
          continue;
        }
        const int inner = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner < 0) continue;
        if (depth < kDeepest) remove_content(inner, depth + 1);
        close(inner);
        if (unlinkat(folder, name, AT_REMOVEDIR) == 0) removes = true;
      }
    }
  }
}

}  // namespace

void remove_folder_in_handler(const char* path) {
  const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  remove_content(folder, 0);
  close(folder);
  rmdir(path);
}

}  // namespace detent
