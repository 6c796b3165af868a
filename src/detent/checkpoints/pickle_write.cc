#include <bit>
#include <limits>

#include "detent/checkpoints/pickle.h"
#include "detent/core/error.h"

namespace detent {
namespace {

template <class T>
void append(std::string& text, T number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

}  // namespace

PickleWriter::PickleWriter() : text_("\x80\x02", 2) {}

void PickleWriter::integer(int64_t value) {
  if (value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max()) {
    text_ += 'J';
    append(text_, static_cast<int32_t>(value));
  } else {
    text_ += "\x8a\x08";  // LONG1 of 8 bytes
    append(text_, value);
  }
}

void PickleWriter::real(double value) {
  text_ += 'G';
  append(text_, __builtin_bswap64(std::bit_cast<uint64_t>(value)));
}

void PickleWriter::text(std::string_view value) {
  DETENT_CHECK(value.size() <= std::numeric_limits<uint32_t>::max(), "a text of {} bytes", value.size());
  text_ += 'X';
  append(text_, static_cast<uint32_t>(value.size()));
  text_ += value;
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  text_ += 'c';
  text_.append(module).append("\n").append(name).append("\n");
}

void PickleWriter::value(const Value& value) {
  if (const bool* boolean_value = value.get_if<bool>()) {
    boolean(*boolean_value);
  } else if (const int64_t* integer_value = value.get_if<int64_t>()) {
    integer(*integer_value);
  } else if (const double* real_value = value.get_if<double>()) {
    real(*real_value);
  } else if (const std::string* text_value = value.get_if<std::string>()) {
    text(*text_value);
  } else if (const List* list = value.get_if<List>()) {
    empty_list();
    mark();
    for (const Value& element : *list) this->value(element);
    appends();
  } else if (const Table* table = value.get_if<Table>()) {
    empty_dict();
    mark();
    for (const auto& [key, element] : *table) {
      text(key);
      this->value(element);
    }
    set_items();
  } else {
    none();
  }
}

std::string PickleWriter::finish() {
  text_ += '.';
  return std::move(text_);
}

}  // namespace detent
