#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/core.h>

namespace detent {

/// The input is at fault: a file, a configuration key, a name, a shape. The message names the file, node or
/// key, the value found and the values allowed; the program prints it and exits with 1. what() is escaped as
/// by `printable`, since names are arbitrary bytes.
class Error : public std::runtime_error {
 public:
  explicit Error(std::string_view message);
};

/// The command line is at fault: the program prints the message and exits with 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A broken invariant: a bug in detent or its caller.
class CheckFailure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& values);

/// The candidate with the smallest edit distance to `name`, ignoring case and `-`/`_`, or "" if none is close
/// enough.
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
