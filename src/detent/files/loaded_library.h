#pragma once

#include <string>

namespace detent {

/// A shared library loaded on first use, so that programs start without it. It stays loaded.
class LoadedLibrary {
 public:
  /// Throws Error, beginning with `need` ("downloads need libcurl (package libcurl4)"), if it is missing.
  LoadedLibrary(std::string name, const std::string& need);

  /// Throws Error if the library lacks the symbol.
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
