#include "detent/files/loaded_library.h"

#include <dlfcn.h>

#include <utility>

#include "detent/core/error.h"

namespace detent {

LoadedLibrary::LoadedLibrary(std::string name, const std::string& need)
    : name_(std::move(name)), handle_(dlopen(name_.c_str(), RTLD_NOW)) {
  if (handle_ == nullptr) fail("{}: {}", need, dlerror());
}

void* LoadedLibrary::address(const char* symbol) const {
  void* found = dlsym(handle_, symbol);
  if (found == nullptr) fail("{} has no {}", name_, symbol);
  return found;
}

}  // namespace detent
