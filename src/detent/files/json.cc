#include "detent/files/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "detent/core/error.h"
#include "detent/files/file.h"

namespace detent {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{256} << 20;
constexpr size_t kMaxDepth = 128;

std::string escaped(const std::string& text, InvalidText invalid) {
  using Handler = nlohmann::json::error_handler_t;
  try {
    return nlohmann::json(text).dump(
        -1, ' ', false, invalid == InvalidText::kIsReplaced ? Handler::replace : Handler::strict);
  } catch (const nlohmann::json::exception&) {
    fail("cannot write \"{}\" as JSON: it is not UTF-8", text);
  }
}

bool holds_containers(const Value& value) { return value.is<List>() || value.is<Table>(); }

/// Whether `text` is the form of a number that JSON has no number for, after backslashes or not. As a string
/// it is written with a backslash more, so that it does not read as the number.
bool is_number_word(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('\\'), text.size()));
  return text == "inf" || text == "-inf" || text == "nan";
}

class Emitter {
 public:
  Emitter(JsonLayout layout, InvalidText invalid) : layout_(layout), invalid_(invalid) {}

  std::string run(const Value& value) {
    std::visit(*this, value.storage());
    return std::move(text_);
  }

  void operator()(std::monostate) { text_ += "null"; }
  void operator()(bool value) { text_ += value ? "true" : "false"; }
  void operator()(int64_t value) { text_ += fmt::format("{}", value); }
  void operator()(double value) {
    text_ += std::isfinite(value) ? float_text(value) : fmt::format("\"{}\"", float_text(value));
  }
  void operator()(const std::string& value) {
    text_ += escaped(is_number_word(value) ? "\\" + value : value, invalid_);
  }
  void operator()(const List& list) {
    const bool broken = layout_ == JsonLayout::kIndented && std::ranges::any_of(list, holds_containers);
    open('[');
    for (const Value& value : list) {
      separate(broken);
      std::visit(*this, value.storage());
    }
    close(']', broken);
  }
  void operator()(const Table& table) {
    const auto holds = [](const TableEntry& entry) { return holds_containers(entry.value); };
    const bool broken = layout_ == JsonLayout::kIndented && std::any_of(table.begin(), table.end(), holds);
    open('{');
    for (const auto& [key, value] : table) {
      separate(broken);
      text_ += escaped(key, invalid_) + ": ";
      std::visit(*this, value.storage());
    }
    close('}', broken);
  }

 private:
  void open(char bracket) {
    text_ += bracket;
    ++depth_;
    first_ = true;
  }
  void separate(bool broken) {
    if (!std::exchange(first_, false)) text_ += broken ? "," : ", ";
    if (broken) new_line();
  }
  void close(char bracket, bool broken) {
    --depth_;
    if (broken) new_line();
    text_ += bracket;
    first_ = false;
  }
  void new_line() { text_ += "\n" + std::string(2 * depth_, ' '); }

  JsonLayout layout_;
  InvalidText invalid_;
  std::string text_;
  size_t depth_ = 0;
  bool first_ = true;  // nothing stands yet in the innermost container
};

/// Builds the tree from nlohmann's events; the containers that are still open stand on a stack.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Value take() { return std::move(result_); }

  bool null() override { return add(Value()); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(int64_t{value}); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      outside_int64(std::to_string(value));
    return add(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t& digits) override {
    // Integers that fit no integer type arrive here too.
    if (digits.find_first_of(".eE") == std::string::npos) outside_int64(digits);
    return add(value);
  }
  bool string(string_t& value) override {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (value == "inf") return add(kInfinity);
    if (value == "-inf") return add(-kInfinity);
    if (value == "nan") return add(std::numeric_limits<double>::quiet_NaN());
    if (is_number_word(value)) value.erase(0, 1);
    return add(std::move(value));
  }
  bool binary(binary_t&) override { return false; }  // not in text

  bool start_object(std::size_t) override { return open(Table()); }
  bool key(string_t& key) override {
    open_.back().key = std::move(key);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(List()); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    const std::string_view before = text_.substr(0, position == 0 ? 0 : position - 1);
    const auto line = std::ranges::count(before, '\n') + 1;
    const size_t column = before.size() - (before.rfind('\n') + 1) + 1;
    std::string_view reason = error.what();
    const size_t parsing = reason.find("syntax error");
    reason.remove_prefix(parsing == std::string_view::npos ? reason.find(']') + 2 : parsing);
    fail("{}:{}:{}: {}", name_, line, column, reason);
  }

 private:
  struct Open {
    Value container;
    std::string key;
  };

  [[noreturn]] void outside_int64(const std::string& digits) const {
    fail("{}: the integer {} does not fit 64 bits", name_, digits);
  }

  bool open(Value container) {
    if (open_.size() >= kMaxDepth) fail("{}: nested more than {} deep", name_, kMaxDepth);
    open_.push_back({std::move(container), ""});
    return true;
  }

  bool close() {
    Value container = std::move(open_.back().container);
    open_.pop_back();
    return add(std::move(container));
  }

  bool add(Value value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (List* list = open_.back().container.get_if<List>()) {
      list->push_back(std::move(value));
    } else if (Table* table = open_.back().container.get_if<Table>()) {
      const std::string& key = open_.back().key;
      if (table->contains(key)) fail("{}: the key \"{}\" occurs twice in an object", name_, key);
      (*table)[key] = std::move(value);
    }
    return true;
  }

  std::string_view text_;
  const std::string& name_;
  std::vector<Open> open_;
  Value result_;
};

}  // namespace

std::string valid_utf8(const std::string& text) {
  if (std::ranges::all_of(text, [](char c) { return (c & 0x80) == 0; })) return text;
  return nlohmann::json::parse(escaped(text, InvalidText::kIsReplaced)).get<std::string>();
}

std::string json_text(const Value& value, JsonLayout layout, InvalidText invalid) {
  return Emitter(layout, invalid).run(value);
}

Value parse_json(std::string_view text, const std::string& name) {
  Builder builder(text, name);
  nlohmann::json::sax_parse(text, &builder);
  return builder.take();
}

Value read_json(const std::filesystem::path& path) {
  return parse_json(read_text_file(path, kMaxFileBytes), path.string());
}

void write_json(const std::filesystem::path& path, const Value& value, JsonLayout layout) {
  write_file(path, json_text(value, layout) + "\n");
}

}  // namespace detent
