#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "detent/core/error.h"
#include "detent/python/bindings.h"
#include "detent/python/work.h"

namespace nb = nanobind;

namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): a Python type, which lives as long
nb::handle error_type;

void translate_error(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const detent::Error& error) {
    PyErr_SetString(error_type.ptr(), error.what());
  }
}

}  // namespace

NB_MODULE(_detent, module) {
  module.doc() = "What the package detent is made of; use that.";
  module.def("version", [] { return std::string(DETENT_VERSION); });
  error_type = nb::object(nb::module_::import_("detent._errors").attr("Error")).release();
  nb::register_exception_translator(translate_error);
  detent::python::keep_messages();
  detent::python::bind_formats(module);
  detent::python::bind_networks(module);
  detent::python::bind_sessions(module);
  detent::python::bind_language(module);
  detent::python::bind_studies(module);
}
