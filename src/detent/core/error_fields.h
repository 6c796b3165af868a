#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "detent/core/error.h"

namespace detent {

/// Subject of an Error; "" where it has none.
struct ErrorFields {
  std::string file = {};     // that is at fault
  std::string node = {};     // of the network
  std::string key = {};      // an option, or the key of a file
  std::string got = {};      // the value that was found
  std::string allowed = {};  // the values that are possible

  bool operator==(const ErrorFields&) const = default;
};

/// An Error with machine-readable fields beside its text.
class DetailedError : public Error {
 public:
  DetailedError(std::string_view message, ErrorFields fields);

  const ErrorFields& fields() const { return *fields_; }

 private:
  std::shared_ptr<const ErrorFields> fields_;  // copies of exceptions may not throw
};

/// Fields of a DetailedError; empty for other exceptions.
ErrorFields fields_of(const Error& error);

/// The error with this message, and these fields where it has none: code nearer to the fault knows better.
DetailedError with_fields(const Error& error, std::string_view message, ErrorFields more);

/// `where: got VALUE, expected ALLOWED`, with got and allowed beside `more`; `note` stands after the value.
[[noreturn]] void fail_value(const std::string& where, std::string got, std::string allowed,
                             ErrorFields more = {}, std::string_view note = {});

/// `where: ` and unknown_name_message, with got and allowed beside `more`; without the first where it is "".
[[noreturn]] void fail_unknown(const std::string& where, std::string_view kind, std::string_view name,
                               std::span<const std::string> candidates, ErrorFields more = {});

/// Runs `work`; its errors get that file, or that key. A UsageError stays one.
template <class Work>
auto about(std::string ErrorFields::*field, const std::string& name, const Work& work) {
  try {
    return work();
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    ErrorFields fields;
    fields.*field = name;
    throw with_fields(error, error.what(), std::move(fields));
  }
}
template <class Work>
auto about_file(const std::string& file, const Work& work) {
  return about(&ErrorFields::file, file, work);
}
template <class Work>
auto about_key(const std::string& key, const Work& work) {
  return about(&ErrorFields::key, key, work);
}

}  // namespace detent
