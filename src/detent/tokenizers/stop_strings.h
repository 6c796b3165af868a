#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace detent {

/// Ends a text that comes in pieces where a stop string begins. A possible beginning of one is held
/// back.
class StopStrings {
 public:
  /// Throws UsageError on an empty one.
  explicit StopStrings(std::vector<std::string> strings);

  /// Text that is safe to show; nothing more after a stop string.
  std::string add(std::string_view text);
  /// The rest, when no more text comes.
  std::string finish();
  bool found() const { return found_; }

 private:
  std::vector<std::string> strings_;
  std::string held_;
  bool found_ = false;
};

}  // namespace detent
