#pragma once

#include <curl/curl.h>

namespace detent {

/// The functions of libcurl that are used.
struct CurlLibrary {
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_strerror) easy_strerror;
};

/// Loads libcurl.so.4 on the first call. Throws Error when that fails.
const CurlLibrary& curl_library();

}  // namespace detent
