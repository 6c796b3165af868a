#pragma once

#include <string>

namespace detent {

/// A shared library that is loaded when it is first needed, so that programs start without it. It stays.
class LoadedLibrary {
 public:
  /// Throws Error, beginning with `need` ("downloads need libcurl (package libcurl4)"), where it is missing.
  LoadedLibrary(std::string name, const std::string& need);

  /// Throws Error where the library has none of this name.
  template <class Function>
  void find(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(address(symbol));
  }

 private:
  void* address(const char* symbol) const;

  std::string name_;
  void* handle_;
};

}  // namespace detent
