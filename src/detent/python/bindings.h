#pragma once

#include <string>

#include <nanobind/nanobind.h>

namespace detent::python {

// Parts of the module, a file each.
void bind_comparisons(nanobind::module_& module);
void bind_formats(nanobind::module_& module);
void bind_language(nanobind::module_& module);
void bind_networks(nanobind::module_& module);
void bind_sessions(nanobind::module_& module);
void bind_studies(nanobind::module_& module);

/// Throws Error where a file of this name exists, unless it may be overwritten, and where its folder is
/// missing.
void check_output(const std::string& path, bool overwrite);

}  // namespace detent::python
