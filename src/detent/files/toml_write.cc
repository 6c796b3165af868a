#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/files/toml.h"

namespace detent {
namespace {

/// A file that holds other bytes than UTF-8 could not be read again.
std::string quoted_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : valid_utf8(std::string(text))) {
    switch (c) {
      case '"':
        result += "\\\"";
        break;
      case '\\':
        result += "\\\\";
        break;
      case '\n':
        result += "\\n";
        break;
      case '\r':
        result += "\\r";
        break;
      case '\t':
        result += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          result += c;
        }
    }
  }
  return result + '"';
}

std::string key_text(std::string_view key) {
  const bool bare = !key.empty() && std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  return bare ? std::string(key) : quoted_text(key);
}

/// Python's `toml` writes 1e-08 as 1e-8.
std::string without_exponent_zero(std::string text) {
  const size_t e = text.find('e');
  if (e != std::string::npos && text[e + 2] == '0') text.erase(e + 2, 1);
  return text;
}

class TomlEmitter {
 public:
  explicit TomlEmitter(TomlLayout layout) : layout_(layout) {}

  std::string run(const Table& root) {
    if (layout_ == TomlLayout::kDepthFirst) {
      depth_first({"", &root});
    } else {
      std::vector<Section> level = {{"", &root}};
      while (!level.empty()) level = breadth_first(level);
    }
    return std::move(text_);
  }

  std::string operator()(std::monostate) const { return "\"NA\""; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const {
    return layout_ == TomlLayout::kDepthFirst ? float_text(value) : without_exponent_zero(float_text(value));
  }
  std::string operator()(const std::string& value) const { return quoted_text(value); }
  std::string operator()(const List& list) const {
    const bool compact = layout_ == TomlLayout::kDepthFirst;
    std::string text;
    for (const Value& value : list) {
      if (compact) {
        text += (text.empty() ? "" : ", ") + inline_text(value);
      } else {
        text += " " + inline_text(value) + ",";
      }
    }
    return "[" + text + "]";
  }
  std::string operator()(const Table& table) const {
    std::string text;
    for (const auto& [key, value] : table) {
      text += fmt::format("{} {} = {}", text.empty() ? "" : ",", key_text(key), inline_text(value));
    }
    return text.empty() ? "{}" : "{" + text + " }";
  }

 private:
  struct Section {
    std::string path;
    const Table* table;
  };

  std::string inline_text(const Value& value) const { return std::visit(*this, value.storage()); }

  /// The header and direct values of one table; returns its sub-tables.
  std::vector<Section> emit(const Section& section) {
    std::vector<Section> children;
    std::string lines;
    for (const auto& [key, value] : *section.table) {
      if (const Table* child = value.get_if<Table>()) {
        children.push_back({section.path + (section.path.empty() ? "" : ".") + key_text(key), child});
      } else {
        lines += fmt::format("{} = {}\n", key_text(key), inline_text(value));
      }
    }
    if (!section.path.empty() && (!lines.empty() || section.table->empty())) {
      text_ += fmt::format("{}[{}]\n", text_.empty() ? "" : "\n", section.path);
    }
    text_ += lines;
    return children;
  }

  void depth_first(const Section& section) {
    for (const Section& child : emit(section)) depth_first(child);
  }

  std::vector<Section> breadth_first(const std::vector<Section>& level) {
    std::vector<Section> next;
    for (const Section& section : level) {
      for (Section& child : emit(section)) next.push_back(std::move(child));
    }
    return next;
  }

  TomlLayout layout_;
  std::string text_;
};

}  // namespace

std::string toml_text(const Table& table, TomlLayout layout) { return TomlEmitter(layout).run(table); }

void write_toml(const std::filesystem::path& path, const Table& table, TomlLayout layout) {
  write_file(path, toml_text(table, layout));
}

}  // namespace detent
