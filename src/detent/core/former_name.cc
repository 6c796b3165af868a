#include "detent/core/former_name.h"

#include <mutex>
#include <set>
#include <string>

#include <fmt/format.h>

#include "detent/core/log.h"

namespace detent {

void warn_of_former_name(std::string_view kind, std::string_view former, std::string_view present) {
  static std::mutex mutex;
  static std::set<std::string> given;
  std::string text = fmt::format("the {} \"{}\" is now called \"{}\"", kind, former, present);
  const std::scoped_lock lock(mutex);
  if (given.insert(text).second) log_warning("{}", text);
}

}  // namespace detent
