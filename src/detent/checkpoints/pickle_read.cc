#include <array>
#include <charconv>
#include <utility>

#include "detent/checkpoints/pickle.h"
#include "detent/core/error.h"
#include "detent/files/byte_reader.h"

namespace detent {
namespace {

constexpr size_t kMaxValues = size_t{1} << 22;
constexpr unsigned char kHighestProtocol = 5;
/// Picklers number what they remember from 0 or 1 on without gaps.
constexpr size_t kMemoGap = 256;

/// Nothing here recurses: the tree is a flat arena of nodes that refer to each other.
class Unpickler {
 public:
  Unpickler(std::span<const std::byte> bytes, const std::string& name, size_t memory)
      : reader_(bytes, name), memory_(memory) {}

  Pickle run() {
    constexpr char kStop = '.';
    for (;;) {
      const char opcode = reader_.number<char>();
      if (opcode == kStop) break;
      const bool known = scalar(opcode) || text(opcode) || old_text(opcode) || collect(opcode) ||
                         fill(opcode) || stack(opcode) || remember(opcode) || object(opcode);
      if (!known)
        corrupt(fmt::format("opcode 0x{:02x} is not supported", static_cast<unsigned char>(opcode)));
    }
    result_.root = pop();
    result_.byte_size = reader_.position();
    return std::move(result_);
  }

 private:
  [[noreturn]] void corrupt(const std::string& what) const {
    fail("{}: bad pickle near byte {}: {}", reader_.name(), reader_.position(), what);
  }

  // Upper bounds of what the containers take, with what the allocator adds and vectors reserve: while it
  // grows, a vector that doubles has three times its elements.
  static constexpr size_t kAllocation = 32;
  static constexpr size_t kGrowing = 3;
  static constexpr size_t kPointer = sizeof(void*);

  void spend(size_t bytes) {
    result_.memory += bytes;
    if (result_.memory > memory_) {
      corrupt(fmt::format("its values take more than {} bytes of memory, the most for a file of this size",
                          memory_));
    }
  }
  /// Items that stay as they were collected.
  PickleItems kept(PickleItems&& items) {
    if (!items.empty()) spend(kAllocation + items.size() * kPointer);
    return std::move(items);
  }

  PickleValue* make(PickleValue&& value) {
    spend(sizeof(PickleValue) + kPointer);
    if (result_.values.size() >= kMaxValues) corrupt(fmt::format("more than {} values", kMaxValues));
    return &result_.values.emplace_back(std::move(value));
  }
  template <class T>
  bool push(T&& storage) {
    put_on_stack(make(PickleValue{std::forward<T>(storage)}));
    return true;
  }
  void put_on_stack(PickleValue* value) {
    if (stack_.size() == highest_stack_) {
      spend(kGrowing * kPointer);
      ++highest_stack_;
    }
    stack_.push_back(value);
  }
  PickleValue* pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) corrupt("the stack is empty");
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue* top() {
    PickleValue* value = pop();
    stack_.push_back(value);
    return value;
  }
  PickleItems pop_to_mark() {
    if (marks_.empty()) corrupt("no mark on the stack");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    PickleItems items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  PickleItems pop_items(size_t count) {
    PickleItems items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }

  size_t length64() {
    const auto length = reader_.number<uint64_t>();
    if (length > reader_.remaining())
      corrupt(fmt::format("{} bytes of text, {} are left", length, reader_.remaining()));
    return length;
  }

  bool scalar(char opcode) {
    switch (opcode) {
      case 'N':
        return push(std::monostate());
      case '\x88':
        return push(true);
      case '\x89':
        return push(false);
      case 'J':
        return push(int64_t{reader_.number<int32_t>()});
      case 'K':
        return push(int64_t{reader_.number<uint8_t>()});
      case 'M':
        return push(int64_t{reader_.number<uint16_t>()});
      case '\x8a':
        return push_long(reader_.text(reader_.number<uint8_t>()));
      case '\x8b':
        return push_long(reader_.text(reader_.number<uint32_t>()));
      case 'G':
        // The one big-endian number of the format.
        return push(std::bit_cast<double>(__builtin_bswap64(reader_.number<uint64_t>())));
      default:
        return false;
    }
  }

  /// Little-endian two's complement of any length.
  bool push_long(std::string_view bytes) {
    if (bytes.size() > sizeof(int64_t)) return push_big_integer(bytes);
    const bool negative = !bytes.empty() && (static_cast<unsigned char>(bytes.back()) & 0x80U) != 0;
    int64_t value = negative ? -1 : 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    return push(value);
  }
  bool push_big_integer(std::string_view digits) {
    const PickleValue* arguments = make({PickleTuple{kept({make({PickleBytes{digits}})})}});
    return push(PickleObject{make({PickleGlobal{"builtins", "int"}}), arguments});
  }

  bool text(char opcode) {
    switch (opcode) {
      case 'X':
      case 'T':
        return push(reader_.text(reader_.number<uint32_t>()));
      case '\x8c':
      case 'U':
        return push(reader_.text(reader_.number<uint8_t>()));
      case '\x8d':
        return push(reader_.text(length64()));
      case 'B':
        return push(PickleBytes{reader_.text(reader_.number<uint32_t>())});
      case 'C':
        return push(PickleBytes{reader_.text(reader_.number<uint8_t>())});
      case '\x8e':
      case '\x96':
        return push(PickleBytes{reader_.text(length64())});
      default:
        return false;
    }
  }

  /// The lines of text of protocol 0.
  bool old_text(char opcode) {
    switch (opcode) {
      case 'I': {
        const std::string_view line = reader_.line();
        if (line == "00" || line == "01") return push(line == "01");
        return push_decimal(line);
      }
      case 'L': {
        const std::string_view line = reader_.line();
        return push_decimal(line.substr(0, line.size() - (line.ends_with('L') ? 1 : 0)));
      }
      case 'F':
        return push(parse<double>(reader_.line()));
      case 'S': {
        const std::string_view line = reader_.line();
        if (line.size() < 2 || line.front() != line.back()) corrupt("a string without quotes");
        return push(without_escapes(line.substr(1, line.size() - 2)));
      }
      case 'V':
        return push(without_escapes(reader_.line()));
      default:
        return false;
    }
  }
  template <class T>
  T parse(std::string_view line) const {
    T value{};
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc() || end != line.data() + line.size())
      corrupt(fmt::format("bad number \"{}\"", line));
    return value;
  }
  bool push_decimal(std::string_view line) {
    constexpr size_t kSurelyInt64 = 18;
    return line.size() > kSurelyInt64 ? push_big_integer(line) : push(parse<int64_t>(line));
  }
  std::string_view without_escapes(std::string_view line) const {
    if (line.find('\\') != std::string_view::npos) corrupt("escapes in protocol 0 text are not supported");
    return line;
  }

  /// New containers.
  bool collect(char opcode) {
    switch (opcode) {
      case ']':
        return push(PickleList{});
      case 'l':
        return push(PickleList{kept(pop_to_mark())});
      case ')':
        return push(PickleTuple{});
      case 't':
        return push(PickleTuple{kept(pop_to_mark())});
      case '\x85':
      case '\x86':
      case '\x87':
        return push(PickleTuple{kept(pop_items(static_cast<size_t>(opcode - '\x84')))});
      case '}':
        return push(PickleDict{});
      case 'd': {
        PickleDict dict;
        add_pairs(dict, pop_to_mark());
        return push(std::move(dict));
      }
      case '\x8f':
        return push(PickleSet{});
      case '\x91':
        return push(PickleSet{kept(pop_to_mark())});
      default:
        return false;
    }
  }

  /// Items for the container on the stack.
  bool fill(char opcode) {
    switch (opcode) {
      case 'a':
        return append(pop_items(1));
      case 'e':
        return append(pop_to_mark());
      case 's':
        return set_items(pop_items(2));
      case 'u':
        return set_items(pop_to_mark());
      case '\x90': {
        const PickleItems items = pop_to_mark();
        auto* set = std::get_if<PickleSet>(&top()->storage);
        if (set == nullptr) corrupt("items added to something that is no set");
        add_items(set->items, items);
        return true;
      }
      default:
        return false;
    }
  }
  bool append(const PickleItems& items) {
    PickleValue* target = top();
    auto* list = std::get_if<PickleList>(&target->storage);
    if (auto* subclass = std::get_if<PickleObject>(&target->storage)) list = &contents(*subclass).list;
    if (list == nullptr) corrupt("items appended to something that is no list");
    add_items(list->items, items);
    return true;
  }
  void add_items(PickleItems& target, const PickleItems& items) {
    spend(kAllocation + kGrowing * items.size() * kPointer);
    target.insert(target.end(), items.begin(), items.end());
  }
  bool set_items(const PickleItems& items) {
    PickleValue* target = top();
    auto* dict = std::get_if<PickleDict>(&target->storage);
    if (auto* subclass = std::get_if<PickleObject>(&target->storage)) dict = &contents(*subclass).dict;
    if (dict == nullptr) corrupt("items set in something that is no dict");
    add_pairs(*dict, items);
    return true;
  }
  void add_pairs(PickleDict& dict, const PickleItems& items) {
    if (items.size() % 2 != 0) corrupt("a key without a value");
    spend(kAllocation + kGrowing * items.size() * kPointer);
    for (size_t i = 0; i < items.size(); i += 2) dict.entries.emplace_back(items[i], items[i + 1]);
  }

  bool stack(char opcode) {
    switch (opcode) {
      case '(':
        if (marks_.size() == highest_marks_) {
          spend(kGrowing * sizeof(size_t));
          ++highest_marks_;
        }
        marks_.push_back(stack_.size());
        return true;
      case '0':
        pop();
        return true;
      case '1':
        pop_to_mark();
        return true;
      case '2':
        put_on_stack(top());
        return true;
      case '\x80': {
        const auto protocol = reader_.number<uint8_t>();
        if (protocol > kHighestProtocol) corrupt(fmt::format("protocol {}, at most 5 is known", protocol));
        return true;
      }
      case '\x95':
        reader_.number<uint64_t>();  // the length of a frame: frames are only for buffering
        return true;
      default:
        return false;
    }
  }

  bool remember(char opcode) {
    switch (opcode) {
      case 'q':
        return put(reader_.number<uint8_t>());
      case 'r':
        return put(reader_.number<uint32_t>());
      case 'p':
        return put(parse<uint32_t>(reader_.line()));
      case '\x94':
        return put(static_cast<uint32_t>(memo_.size()));
      case 'h':
        return get(reader_.number<uint8_t>());
      case 'j':
        return get(reader_.number<uint32_t>());
      case 'g':
        return get(parse<uint32_t>(reader_.line()));
      default:
        return false;
    }
  }
  bool put(uint32_t index) {
    if (index > memo_.size() + kMemoGap) corrupt(fmt::format("a value remembered as {}", index));
    if (index >= memo_.size()) {
      spend(kGrowing * (index + size_t{1} - memo_.size()) * kPointer);
      memo_.resize(index + size_t{1}, nullptr);
    }
    memo_[index] = top();
    return true;
  }
  bool get(uint32_t index) {
    if (index >= memo_.size() || memo_[index] == nullptr)
      corrupt(fmt::format("nothing remembered as {}", index));
    put_on_stack(memo_[index]);
    return true;
  }

  bool object(char opcode) {
    switch (opcode) {
      case 'c': {
        const std::string_view module = reader_.line();
        return push(PickleGlobal{module, reader_.line()});
      }
      case '\x93': {
        const PickleItems names = pop_items(2);
        const auto* module = names[0]->get_if<std::string_view>();
        const auto* name = names[1]->get_if<std::string_view>();
        if (module == nullptr || name == nullptr) corrupt("the name of a class is no string");
        return push(PickleGlobal{*module, *name});
      }
      case 'R':
      case '\x81': {
        const PickleItems call = pop_items(2);
        return push(PickleObject{call[0], call[1]});
      }
      case '\x92': {
        const PickleItems call = pop_items(3);
        return push(PickleObject{call[0], make({PickleTuple{kept({call[1], call[2]})}})});
      }
      case 'b':
        return build(pop());
      case 'Q':
        return push(PicklePersistent{pop()});
      case 'P':
        return push(PicklePersistent{make({reader_.line()})});
      default:
        return instance(opcode);
    }
  }
  bool build(const PickleValue* state) {
    auto* target = std::get_if<PickleObject>(&top()->storage);
    if (target == nullptr) corrupt("a state for something that is no object");
    contents(*target).state = state;
    return true;
  }
  PickleContents& contents(PickleObject& object) {
    if (object.contents == nullptr) {
      spend(kAllocation + sizeof(PickleContents));
      object.contents = std::make_unique<PickleContents>();
    }
    return *object.contents;
  }
  /// The old ways to make an instance: class and arguments stand above the mark.
  bool instance(char opcode) {
    if (opcode == 'i') {
      const std::string_view module = reader_.line();
      const PickleValue* callable = make({PickleGlobal{module, reader_.line()}});
      return push(PickleObject{callable, make({PickleTuple{kept(pop_to_mark())}})});
    }
    if (opcode != 'o') return false;
    PickleItems items = pop_to_mark();
    if (items.empty()) corrupt("an object without a class");
    const PickleValue* callable = items.front();
    items.erase(items.begin());
    return push(PickleObject{callable, make({PickleTuple{kept(std::move(items))}})});
  }

  ByteReader reader_;
  size_t memory_;
  Pickle result_;
  std::vector<PickleValue*> stack_;
  size_t highest_stack_ = 0;
  std::vector<size_t> marks_;
  size_t highest_marks_ = 0;
  std::vector<PickleValue*> memo_;  // nullptr: a number that was left out
};

}  // namespace

Pickle unpickle(std::span<const std::byte> bytes, const std::string& name, size_t memory) {
  return Unpickler(bytes, name, memory).run();
}

std::string pickle_kind(const PickleValue& value) {
  constexpr std::array kNames = {
      "None",    "a boolean", "an integer", "a float", "a string",          "bytes",    "a list",
      "a tuple", "a set",     "a dict",     "a class", "an external value", "an object"};
  const auto* object = value.get_if<PickleObject>();
  const auto* global =
      object == nullptr ? value.get_if<PickleGlobal>() : object->callable->get_if<PickleGlobal>();
  std::string kind = kNames[value.storage.index()];
  if (global != nullptr)
    kind += fmt::format(" {}{}.{}", object == nullptr ? "" : "of ", global->module, global->name);
  return kind;
}

}  // namespace detent
