#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/core.h>

namespace detent {

/// A fault of the user's input: a file, a configuration key, a name, a shape. The message names the file,
/// node or key, the value that was found and the values that are allowed. The program prints it and exits
/// with 1. Names are bytes of files: what() has them escaped as `printable` does, and so is whole where one
/// holds a NUL.
class Error : public std::runtime_error {
 public:
  explicit Error(std::string_view message);
};

/// A fault of the command line itself: the program prints it and exits with 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A broken invariant, that is a bug in detent or in the code that calls it.
class CheckFailure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& values);

/// The candidate with the smallest edit distance to `name` (case and `-`/`_` ignored), or "" when none is
/// near enough to be a misspelling of it.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

/// `unknown model "toyy": did you mean "toy"? (known: toy, toy_tiny)`
std::string unknown_name_message(std::string_view kind, std::string_view name,
                                 std::span<const std::string> candidates);

}  // namespace detent

/// DETENT_CHECK(a == b, "a is {}, b is {}", a, b): throws CheckFailure, for bugs only.
#define DETENT_CHECK(condition, ...)                                                      \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::detent::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
