#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/tokenizers/subword_model.h"

namespace detent {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 20;

}  // namespace

void TokenTable::add(std::string token, int64_t id, const std::string& name) {
  if (id < 0 || id >= kMostTokens)
    fail("{}: token \"{}\" has id {}: ids are from 0 to {}", name, token, id, kMostTokens - 1);
  const auto place = static_cast<size_t>(id);
  if (place >= tokens_.size()) {
    tokens_.resize(place + 1);
    taken_.resize(place + 1);
  }
  if (taken_[place]) fail("{}: tokens \"{}\" and \"{}\" both have id {}", name, tokens_[place], token, id);
  taken_[place] = true;
  tokens_[place] = token;
  ids_[std::move(token)] = id;
}

std::optional<int64_t> TokenTable::find(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

bool TokenTable::has(int64_t id) const { return id >= 0 && id < size() && taken_[static_cast<size_t>(id)]; }

const std::string& TokenTable::token(int64_t id) const {
  static const std::string none;
  return has(id) ? tokens_[static_cast<size_t>(id)] : none;
}

std::string byte_token(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

}  // namespace detent
