#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "detent/core/value.h"

namespace detent {

struct PickleValue;
using PickleItems = std::vector<const PickleValue*>;

struct PickleBytes {
  std::string_view bytes;
};
struct PickleList {
  PickleItems items;
};
struct PickleTuple {
  PickleItems items;
};
struct PickleSet {
  PickleItems items;
};
struct PickleDict {
  std::vector<std::pair<const PickleValue*, const PickleValue*>> entries;
};
/// A class or function, by name only.
struct PickleGlobal {
  std::string_view module;
  std::string_view name;
};
/// A reference to data outside the pickle: in PyTorch's files the tuple ("storage", class, key, device,
/// elements).
struct PicklePersistent {
  const PickleValue* id;
};
/// State given to an object after it was made; few get any.
struct PickleContents {
  const PickleValue* state = nullptr;  // what __setstate__ would get
  PickleDict dict;                     // items set on a subclass of dict
  PickleList list;                     // items appended to a subclass of list
};
/// An object that Python would build by calling `callable(*arguments)`; detent never does.
struct PickleObject {
  const PickleValue* callable;
  const PickleValue* arguments;
  std::unique_ptr<PickleContents> contents = nullptr;  // nullptr: nothing

  const PickleValue* state() const { return contents == nullptr ? nullptr : contents->state; }
};

/// A node of an unpickled tree. Nodes may be shared and, in a hostile file, form cycles: bound what you walk.
struct PickleValue {
  std::variant<std::monostate, bool, int64_t, double, std::string_view, PickleBytes, PickleList, PickleTuple,
               PickleSet, PickleDict, PickleGlobal, PicklePersistent, PickleObject>
      storage;

  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&storage);
  }
};

/// The nodes of one pickle; they live as long as it does. Text in them is that of the bytes that were read.
struct Pickle {
  std::deque<PickleValue> values;
  const PickleValue* root = nullptr;
  /// Bytes read, up to and including the STOP.
  size_t byte_size = 0;
  /// Bytes of memory that reading took, an upper bound.
  size_t memory = 0;
};

/// Reads one pickle of protocol 0 to 5 from the beginning of `bytes`, which must outlive it, without
/// executing anything: classes, functions and the objects they make stay inert. Integers outside int64 become
/// objects of builtins.int. Throws Error, beginning with `name`, on truncated or malformed input, an opcode
/// that PyTorch's files do not use (extension registry, out-of-band buffers, escapes in protocol 0 text),
/// values remembered under numbers that no pickler gives, more than 4 million values, and when reading takes
/// more than `memory` bytes of memory: a value may have one byte in a pickle and takes some 50 here.
Pickle unpickle(std::span<const std::byte> bytes, const std::string& name, size_t memory);

/// "an integer", "a tuple", "an object of torch.nn.Linear": for messages.
std::string pickle_kind(const PickleValue& value);

/// Writes a pickle of protocol 2, opcode by opcode; the caller keeps the order that pickle's stack wants.
class PickleWriter {
 public:
  PickleWriter();

  void none() { text_ += 'N'; }
  void boolean(bool value) { text_ += value ? '\x88' : '\x89'; }
  void integer(int64_t value);
  void real(double value);
  void text(std::string_view value);
  void global(std::string_view module, std::string_view name);
  /// NA becomes None, a table a dict.
  void value(const Value& value);

  void mark() { text_ += '('; }
  /// Collects what was pushed since the mark.
  void tuple() { text_ += 't'; }
  void empty_tuple() { text_ += ')'; }
  void empty_list() { text_ += ']'; }
  void empty_dict() { text_ += '}'; }
  /// Appends what was pushed since the mark to the list below it.
  void appends() { text_ += 'e'; }
  /// Sets the keys and values pushed since the mark in the dict below it.
  void set_items() { text_ += 'u'; }
  /// Pops the arguments (a tuple) and the callable.
  void reduce() { text_ += 'R'; }
  /// Pops the id.
  void persistent() { text_ += 'Q'; }

  /// The finished pickle.
  std::string finish();

 private:
  std::string text_;
};

}  // namespace detent
