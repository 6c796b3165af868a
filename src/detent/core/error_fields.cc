#include "detent/core/error_fields.h"

#include <utility>

#include <fmt/format.h>

#include "detent/core/name_pattern.h"

namespace detent {

DetailedError::DetailedError(std::string_view message, ErrorFields fields)
    : Error(message), fields_(std::make_shared<const ErrorFields>(std::move(fields))) {}

ErrorFields fields_of(const Error& error) {
  const auto* detailed = dynamic_cast<const DetailedError*>(&error);
  return detailed == nullptr ? ErrorFields() : detailed->fields();
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): its fields are moved from
DetailedError with_fields(const Error& error, std::string_view message, ErrorFields more) {
  ErrorFields fields = fields_of(error);
  for (std::string ErrorFields::*field : {&ErrorFields::file, &ErrorFields::node, &ErrorFields::key,
                                          &ErrorFields::got, &ErrorFields::allowed}) {
    if ((fields.*field).empty()) fields.*field = std::move(more.*field);
  }
  return {message, std::move(fields)};
}

void fail_value(const std::string& where, std::string got, std::string allowed, ErrorFields more,
                std::string_view note) {
  const std::string message = fmt::format("{}: got {}{}, expected {}", where, got, note, allowed);
  more.got = std::move(got);
  more.allowed = std::move(allowed);
  throw DetailedError(message, std::move(more));
}

void fail_unknown(const std::string& where, std::string_view kind, std::string_view name,
                  std::span<const std::string> candidates, ErrorFields more) {
  const std::string message = unknown_name_message(kind, name, candidates);
  more.got = name;
  more.allowed = listed_names(candidates, name);
  throw DetailedError(where.empty() ? message : fmt::format("{}: {}", where, message), std::move(more));
}

}  // namespace detent
