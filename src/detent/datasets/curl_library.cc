#include "detent/datasets/curl_library.h"

#include "detent/files/loaded_library.h"

namespace detent {
namespace {

CurlLibrary load() {
  const LoadedLibrary library("libcurl.so.4", "downloads need libcurl (package libcurl4)");
  CurlLibrary curl{};
  library.find("curl_easy_init", curl.easy_init);
  library.find("curl_easy_cleanup", curl.easy_cleanup);
  library.find("curl_easy_setopt", curl.easy_setopt);
  library.find("curl_easy_perform", curl.easy_perform);
  library.find("curl_easy_getinfo", curl.easy_getinfo);
  library.find("curl_easy_strerror", curl.easy_strerror);
  return curl;
}

}  // namespace

const CurlLibrary& curl_library() {
  static const CurlLibrary kLibrary = load();
  return kLibrary;
}

}  // namespace detent
