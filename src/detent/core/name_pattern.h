#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace re2 {
class RE2;
}

namespace detent {

/// A regular expression for names of nodes, parameters or tensors, in RE2's syntax: Perl's without
/// backreferences and lookaround. Time is linear in the name and memory bounded. Copies share the compiled
/// expression; thread-safe.
class NamePattern {
 public:
  /// Throws Error, beginning with `where`, on an invalid or too large expression.
  NamePattern(const std::string& text, const std::string& where);

  /// Whether it matches the whole name.
  bool matches(std::string_view name) const;
  /// Whether it matches some part of the name.
  bool occurs_in(std::string_view name) const;

 private:
  std::shared_ptr<const re2::RE2> expression_;
};

/// `"layr1.*" matches no node: did you mean "layer1_0_conv1"? (nodes: conv1, layer1_0_conv1, ...)`
std::string unmatched_pattern_message(const std::string& pattern, std::span<const std::string> names);

/// "a, b, c"; beyond two dozen, those closest to `near` ("": the first), "and 171 others".
std::string listed_names(std::span<const std::string> names, std::string_view near = "");

}  // namespace detent
