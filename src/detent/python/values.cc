#include "detent/python/arrays.h"

#include <utility>
#include <variant>

#include <fmt/format.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace detent::python {

nb::object object_of(const Value& value) {
  return std::visit(
      []<class T>(const T& held) -> nb::object {
        if constexpr (std::is_same_v<T, std::monostate>) {
          return nb::none();
        } else if constexpr (std::is_same_v<T, Table>) {
          return object_of(held);
        } else if constexpr (std::is_same_v<T, List>) {
          nb::list list;
          for (const Value& element : held) list.append(object_of(element));
          return list;
        } else {
          return nb::cast(held);
        }
      },
      value.storage());
}

nb::dict object_of(const Table& table) {
  nb::dict dict;
  for (const auto& [key, value] : table) dict[nb::str(key.c_str(), key.size())] = object_of(value);
  return dict;
}

Value value_of(nb::handle object, const std::string& where) {
  if (object.is_none()) return {};
  if (PyBool_Check(object.ptr())) return Value(object.is(Py_True));
  if (PyUnicode_Check(object.ptr())) return Value(nb::cast<std::string>(object));
  if (PyFloat_Check(object.ptr())) return Value(PyFloat_AsDouble(object.ptr()));
  if (PyDict_Check(object.ptr())) return Value(table_of(object, where));
  if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr())) {
    List list;
    for (const nb::handle element : object) list.push_back(value_of(element, where));
    return Value(std::move(list));
  }
  int64_t integer = 0;  // numpy's too
  if (nb::try_cast(object, integer)) return Value(integer);
  double number = 0;
  if (nb::try_cast(object, number)) return Value(number);
  throw nb::type_error(
      fmt::format("{}: got {}, expected a number, a text, a list or a dict", where, type_text(object))
          .c_str());
}

Table table_of(nb::handle object, const std::string& where) {
  if (!PyDict_Check(object.ptr()))
    throw nb::type_error(fmt::format("{}: got {}, expected a dict", where, type_text(object)).c_str());
  Table table;
  const auto dict = nb::borrow<nb::dict>(object);
  for (const auto& [key, value] : dict) {
    if (!PyUnicode_Check(key.ptr()))
      throw nb::type_error(fmt::format("{}: got a key of {}, expected str", where, type_text(key)).c_str());
    const auto name = nb::cast<std::string>(key);
    table[name] = value_of(value, fmt::format("{}, {}", where, name));
  }
  return table;
}

nb::list descriptions(const std::vector<FieldDescription>& fields) {
  nb::list list;
  for (const FieldDescription& field : fields) {
    nb::dict dict;
    dict["name"] = field.name;
    dict["type"] = field.type;
    dict["default"] = field.default_value;
    dict["help"] = field.help;
    list.append(dict);
  }
  return list;
}

}  // namespace detent::python
