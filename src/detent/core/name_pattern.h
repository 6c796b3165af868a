#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace re2 {
class RE2;
}

namespace detent {

/// A regular expression for names of nodes, parameters or tensors, in the syntax of RE2: Perl's without
/// backreferences and lookaround. Time is linear in the name and memory is bounded, whatever the expression.
/// Copies share what was compiled; one object may be used by several threads.
class NamePattern {
 public:
  /// Throws Error, beginning with `where`, on text that is no regular expression or needs too much memory.
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

/// "a, b, c"; of more than two dozen the few that are nearest to `near` ("": the first), "and 171 others".
std::string listed_names(std::span<const std::string> names, std::string_view near = "");

}  // namespace detent
