// Any text as a template of chats: refused, or one that gives a text or an error in a bounded time.
#include <string_view>

#include "detent/core/error.h"
#include "detent/tokenizers/chat/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const detent::ChatTemplate chat({reinterpret_cast<const char*>(data), size}, "template");
    chat.render({{"system", "Be brief."}, {"user", "Hello \xC3\xA9"}, {"assistant", "x"}}, true,
                {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  } catch (const detent::Error&) {
  }
  return 0;
}
