#pragma once

#include <zlib.h>

#include <span>
#include <string>
#include <string_view>

#include "detent/core/error.h"

namespace detent {

/// One gzip member that holds `text`, as `gzip -1` would make it. For tests.
inline std::string gzip_for_test(std::string_view text) {
  constexpr int kGzip = 16 + MAX_WBITS;
  constexpr int kMemoryLevel = 8;
  z_stream zlib{};
  int status = deflateInit2(&zlib, Z_BEST_SPEED, Z_DEFLATED, kGzip, kMemoryLevel, Z_DEFAULT_STRATEGY);
  DETENT_CHECK(status == Z_OK, "deflateInit2 returned {}", status);
  std::string member(deflateBound(&zlib, text.size()), '\0');
  std::string input(text);
  zlib.next_in = reinterpret_cast<Bytef*>(input.data());
  zlib.avail_in = static_cast<uInt>(input.size());
  zlib.next_out = reinterpret_cast<Bytef*>(member.data());
  zlib.avail_out = static_cast<uInt>(member.size());
  status = deflate(&zlib, Z_FINISH);
  DETENT_CHECK(status == Z_STREAM_END, "deflate returned {}", status);
  member.resize(zlib.total_out);
  deflateEnd(&zlib);
  return member;
}

}  // namespace detent
