#include <toml++/toml.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/toml.h"

namespace detent {
namespace {

constexpr uint64_t kMaxTomlBytes = uint64_t{256} << 20;
constexpr int kMaxTomlDepth = 128;
constexpr int kMaxKeyParts = 32;

/// The index of the last character of the string literal that begins at `begin`, or the end of the text.
size_t end_of_string(std::string_view text, size_t begin) {
  const char quote = text[begin];
  const std::string triple(3, quote);
  const bool multiline = text.substr(begin, 3) == triple;
  for (size_t i = begin + (multiline ? 3 : 1); i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (!multiline && (text[i] == quote || text[i] == '\n')) {
      return i;
    } else if (multiline && text.substr(i, 3) == triple) {
      // Up to two quotes may stand before the closing three.
      i += 2;
      for (int extra = 0; extra < 2 && i + 1 < text.size() && text[i + 1] == quote; ++extra) ++i;
      return i;
    }
  }
  return text.size();
}

/// toml++ bounds the nesting of values but not the parts of a dotted key, each of which is a table that is
/// destroyed recursively: a line of a million dots would overflow the stack.
void check_dotted_keys(std::string_view text, const std::string& name) {
  constexpr std::string_view kEndsOfKey = "=[]{},\n";
  int dots = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (kEndsOfKey.find(c) != std::string_view::npos) {
      dots = 0;
    } else if (c == '"' || c == '\'') {
      i = end_of_string(text, i);
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '.' && ++dots >= kMaxKeyParts) {
      const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i), '\n') + 1;
      fail("{}:{}: a key has more than {} parts", name, line, kMaxKeyParts);
    }
  }
}

class Converter {
 public:
  explicit Converter(const std::string& name) : name_(name) {}

  Table table(const toml::table& source, int depth) const {
    std::vector<std::pair<const toml::key*, const toml::node*>> entries;
    for (const auto& [key, node] : source) entries.emplace_back(&key, &node);
    // toml++ keeps keys sorted by name; their positions give back the order of the file.
    std::ranges::stable_sort(entries, {}, [](const auto& entry) {
      const toml::source_position& begin = entry.first->source().begin;
      return std::pair(begin.line, begin.column);
    });
    Table result;
    for (const auto& [key, node] : entries) {
      Value& target = result[key->str()];
      target = value(*node, depth + 1);
      target.set_line(static_cast<int>(key->source().begin.line));
    }
    return result;
  }

 private:
  Value value(const toml::node& node, int depth) const {
    if (depth > kMaxTomlDepth) fail_at(node, "nested more than {} deep", kMaxTomlDepth);
    switch (node.type()) {
      case toml::node_type::table:
        return table(*node.as_table(), depth);
      case toml::node_type::array:
        return list(*node.as_array(), depth);
      case toml::node_type::string: {
        const std::string& text = node.as_string()->get();
        return text == "NA" || text == "None" ? Value() : Value(text);
      }
      case toml::node_type::integer:
        return node.as_integer()->get();
      case toml::node_type::floating_point:
        return node.as_floating_point()->get();
      case toml::node_type::boolean:
        return node.as_boolean()->get();
      default:
        fail_at(node, "dates and times have no use here; write a string in quotes");
    }
  }

  List list(const toml::array& source, int depth) const {
    List result;
    result.reserve(source.size());
    for (const toml::node& element : source) {
      result.push_back(value(element, depth + 1));
      result.back().set_line(static_cast<int>(element.source().begin.line));
    }
    return result;
  }

  template <class... Args>
  [[noreturn]] void fail_at(const toml::node& node, fmt::format_string<Args...> format,
                            Args&&... args) const {
    const toml::source_position& begin = node.source().begin;
    fail("{}:{}:{}: {}", name_, begin.line, begin.column, fmt::format(format, std::forward<Args>(args)...));
  }

  const std::string& name_;
};

}  // namespace

Table parse_toml(std::string_view text, const std::string& name) {
  check_dotted_keys(text, name);
  try {
    const toml::table parsed = toml::parse(text);
    return Converter(name).table(parsed, 0);
  } catch (const toml::parse_error& error) {
    const toml::source_position& begin = error.source().begin;
    fail("{}:{}:{}: {}", name, begin.line, begin.column, error.description());
  }
}

Table read_toml(const std::filesystem::path& path) {
  return parse_toml(read_text_file(path, kMaxTomlBytes), path.string());
}

}  // namespace detent
