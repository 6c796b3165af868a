#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "detent/core/error_fields.h"
#include "detent/core/process_resources.h"
#include "detent/python/bindings.h"
#include "detent/python/work.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): a Python type, which lives as long
nb::handle error_type;

/// None where there is none.
nb::object text_or_none(const std::string& text) {
  return text.empty() ? nb::none() : nb::object(nb::str(text.c_str(), text.size()));
}

void raise(const detent::Error& error) {
  const detent::ErrorFields fields = detent::fields_of(error);
  try {
    const nb::object raised = nb::borrow(error_type)(
        error.what(), "file"_a = text_or_none(fields.file), "node"_a = text_or_none(fields.node),
        "key"_a = text_or_none(fields.key), "got"_a = text_or_none(fields.got),
        "allowed"_a = text_or_none(fields.allowed));
    PyErr_SetObject(error_type.ptr(), raised.ptr());
  } catch (nb::python_error& failed) {
    failed.restore();
  }
}

void translate_error(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const detent::Error& error) {
    raise(error);
  }
}

}  // namespace

/// The function that NB_MODULE defines gets another name, as not every interpreter may call it.
#define PyInit__detent detent_make_module  // NOLINT(cppcoreguidelines-macro-usage)

NB_MODULE(_detent, module) {
  module.doc() = "What the package detent is made of; use that.";
  module.def("version", [] { return std::string(DETENT_VERSION); });
  error_type = nb::object(nb::module_::import_("detent._errors").attr("Error")).release();
  nb::register_exception_translator(translate_error);
  detent::check_processor();
  detent::python::keep_messages();
  detent::python::bind_formats(module);
  detent::python::bind_networks(module);
  detent::python::bind_sessions(module);
  detent::python::bind_language(module);
  detent::python::bind_studies(module);
  detent::python::bind_comparisons(module);
}

#undef PyInit__detent

/// Types of nanobind belong to one interpreter: a second one that imports them takes them from the first.
extern "C" NB_EXPORT PyObject* PyInit__detent() {
  static PyInterpreterState* const first = PyInterpreterState_Get();
  if (first == PyInterpreterState_Get()) return detent_make_module();
  PyErr_SetString(PyExc_ImportError,
                  "detent: another interpreter of this process has imported it, expected one a process");
  return nullptr;
}
