#include "detent/io/curl_library.h"

#include <dlfcn.h>

#include "detent/core/error.h"

namespace detent {
namespace {

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) fail("libcurl.so.4 has no {}", name);
}

CurlLibrary load() {
  void* library = dlopen("libcurl.so.4", RTLD_NOW);
  if (library == nullptr) fail("downloads need libcurl (package libcurl4): {}", dlerror());
  CurlLibrary curl{};
  find(library, "curl_easy_init", curl.easy_init);
  find(library, "curl_easy_cleanup", curl.easy_cleanup);
  find(library, "curl_easy_setopt", curl.easy_setopt);
  find(library, "curl_easy_perform", curl.easy_perform);
  find(library, "curl_easy_getinfo", curl.easy_getinfo);
  find(library, "curl_easy_strerror", curl.easy_strerror);
  return curl;
}

}  // namespace

const CurlLibrary& curl_library() {
  static const CurlLibrary kLibrary = load();
  return kLibrary;
}

}  // namespace detent
