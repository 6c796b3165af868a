#include "detent/io/json.h"

#include <cmath>
#include <limits>
#include <vector>

#include <nlohmann/json.hpp>

#include "detent/core/error.h"

namespace detent {
namespace {

using nlohmann::json;

constexpr size_t kMaxDepth = 128;

/// Builds a Value from nlohmann's events: its own tree would sort keys and keep the last of duplicates.
class Builder final : public nlohmann::json_sax<json> {
 public:
  explicit Builder(const std::string& name) : name_(name) {}

  Value take() { return std::move(root_); }

  bool null() override { return add(Value()); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(int64_t{value}); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      fail("{}: the integer {} does not fit 64 bits", name_, value);
    }
    return add(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    // nlohmann turns an integer of too many digits into a float.
    if (text.find_first_of(".eE") == string_t::npos) {
      fail("{}: the integer {} does not fit 64 bits", name_, text);
    }
    return add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }

  bool start_object(size_t) override { return open(Table()); }
  bool start_array(size_t) override { return open(List()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override {
    if (open_.back().value.get_if<Table>()->contains(key)) fail("{}: key \"{}\" occurs twice", name_, key);
    open_.back().key = std::move(key);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    fail("{}: not JSON: {}", name_, error.what());
  }

 private:
  /// A table or list that is being read, and the key whose value comes next.
  struct Open {
    Value value;
    std::string key = {};
  };

  bool open(Value value) {
    if (open_.size() == kMaxDepth) fail("{}: nested deeper than {}", name_, kMaxDepth);
    open_.push_back({std::move(value)});
    return true;
  }

  bool close() {
    Value finished = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(finished));
  }

  bool add(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (List* list = open_.back().value.get_if<List>()) {
      list->push_back(std::move(value));
    } else {
      (*open_.back().value.get_if<Table>())[open_.back().key] = std::move(value);
    }
    return true;
  }

  const std::string& name_;
  Value root_;
  std::vector<Open> open_;
};

std::string quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

class Writer {
 public:
  explicit Writer(int indent) : indent_(indent) {}

  std::string take() { return std::move(text_); }
  void write(const Value& value) { std::visit(*this, value.storage()); }

  void operator()(std::monostate) { text_ += "null"; }
  void operator()(bool value) { text_ += value ? "true" : "false"; }
  void operator()(int64_t value) { text_ += std::to_string(value); }
  void operator()(double value) {
    text_ += std::isfinite(value) ? float_text(value) : quoted(float_text(value));
  }
  void operator()(const std::string& value) { text_ += quoted(value); }
  void operator()(const List& list) {
    write_elements('[', list, ']', [&](const Value& value) { write(value); });
  }
  void operator()(const Table& table) {
    write_elements('{', table, '}', [&](const TableEntry& entry) {
      text_ += quoted(entry.key) + (indent_ < 0 ? ":" : ": ");
      write(entry.value);
    });
  }

 private:
  template <class Elements, class Function>
  void write_elements(char open, const Elements& elements, char close, Function write_element) {
    text_ += open;
    ++depth_;
    bool first = true;
    for (const auto& element : elements) {
      if (!first) text_ += ',';
      first = false;
      break_line();
      write_element(element);
    }
    --depth_;
    if (!first) break_line();
    text_ += close;
  }

  void break_line() {
    if (indent_ >= 0) text_ += "\n" + std::string(static_cast<size_t>(indent_ * depth_), ' ');
  }

  int indent_;
  int depth_ = 0;
  std::string text_;
};

}  // namespace

Value parse_json(std::string_view text, const std::string& name) {
  Builder builder(name);
  const bool complete = json::sax_parse(text, &builder);
  DETENT_CHECK(complete, "{}: the parser stopped", name);
  return builder.take();
}

std::string json_text(const Value& value, int indent) {
  Writer writer(indent);
  writer.write(value);
  return writer.take();
}

}  // namespace detent
