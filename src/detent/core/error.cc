#include "detent/core/error.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include <fmt/ranges.h>

#include "detent/core/name_pattern.h"
#include "detent/core/text.h"

namespace detent {
namespace {

// Names longer than this are no misspelling of ours, and the distance is quadratic.
constexpr size_t kLongestName = 256;

std::string folded(std::string_view name) {
  std::string result(name);
  for (char& c : result) {
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

/// Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours cost 1.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitution = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, substitution});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

Error::Error(std::string_view message) : std::runtime_error(printable(message)) {}

void check_failed(const char* file, int line, const char* condition, const std::string& values) {
  throw CheckFailure(printable(fmt::format("{}:{}: check failed: {}: {}", file, line, condition, values)));
}

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  if (name.size() > kLongestName) return "";
  const std::string wanted = folded(name);
  size_t best_distance = std::max<size_t>(1, wanted.size() / 3) + 1;
  size_t best_prefix =
      0;  // of equally near ones that which begins alike for longest: "gptqq" is "gptq", not "gptaq"
  std::string best;
  for (const std::string& candidate : candidates) {
    const std::string other = folded(candidate);
    const size_t distance = edit_distance(wanted, other);
    const auto prefix = static_cast<size_t>(std::ranges::mismatch(wanted, other).in1 - wanted.begin());
    const bool is_nearer = distance < best_distance;
    if (is_nearer || (!best.empty() && distance == best_distance && prefix > best_prefix)) {
      best_distance = distance;
      best_prefix = prefix;
      best = candidate;
    }
  }
  return best;
}

namespace {

/// Candidates that have most in common with `name`: it is a part of them, or little has to be changed.
std::vector<std::string> most_similar(std::string_view name, std::span<const std::string> candidates,
                                      size_t count) {
  const std::string wanted = folded(name.substr(0, kLongestName));
  std::vector<std::pair<size_t, size_t>> order;  // cost, position
  for (size_t i = 0; i < candidates.size(); ++i) {
    const std::string other = folded(std::string_view(candidates[i]).substr(0, kLongestName));
    const bool is_part = other.find(wanted) != std::string::npos;  // "" is of all
    order.emplace_back(is_part ? 0 : edit_distance(wanted, other), i);
  }
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count));
  std::vector<std::string> similar;
  for (size_t i = 0; i < count; ++i) similar.push_back(candidates[order[i].second]);
  return similar;
}

}  // namespace

std::string listed_names(std::span<const std::string> names, std::string_view near) {
  constexpr size_t kMost = 24;
  constexpr size_t kShown = 5;
  if (names.size() <= kMost) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} others", fmt::join(most_similar(near, names, kShown), ", "),
                     names.size() - kShown);
}

std::string unknown_name_message(std::string_view kind, std::string_view name,
                                 std::span<const std::string> candidates) {
  const std::string nearest = nearest_name(name, candidates);
  const std::string suggestion = nearest.empty() ? "" : fmt::format(": did you mean \"{}\"?", nearest);
  return fmt::format("unknown {} \"{}\"{} (known: {})", kind, name, suggestion,
                     listed_names(candidates, name));
}

}  // namespace detent
