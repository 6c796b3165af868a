// Any text as a tokenizer.json: refused, or a tokenizer that decodes what it has encoded to valid UTF-8, at
// once and token by token.
#include <cstdlib>
#include <string>
#include <string_view>

#include "detent/core/error.h"
#include "detent/tokenizers/tokenizer.h"
#include "detent/tokenizers/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const detent::Tokenizer tokenizer =
        detent::parse_tokenizer_json({reinterpret_cast<const char*>(data), size}, "tokenizer.json");
    for (const std::string_view text :
         {"The catch's  stops\n12 <s>", "\xC3\xA9\xF0\x9F\x98\x80\xFF \xE2\x96\x81", ""}) {
      const std::vector<int64_t> ids = tokenizer.encode(text);
      if (!detent::is_valid_utf8(tokenizer.decode(ids))) std::abort();
      detent::StreamingDecoder decoder(tokenizer);
      for (const int64_t id : ids)
        if (!detent::is_valid_utf8(decoder.add(id))) std::abort();
      if (!detent::is_valid_utf8(decoder.finish())) std::abort();
    }
  } catch (const detent::Error&) {
  }
  return 0;
}
