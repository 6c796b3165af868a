#include "detent/passes/transform/quantize_config.h"

#include <algorithm>

#include "detent/core/error.h"

namespace detent {
namespace {

const std::vector<std::string> kPrefixes = {"data_in", "data_in_0", "data_in_1", "weight", "bias", "data_out"};

/// The longest prefix that `key` begins with, or "".
std::string prefix_of(const std::string& key) {
  std::string best;
  for (const std::string& prefix : kPrefixes) {
    if (prefix.size() > best.size() && key.starts_with(prefix + "_")) best = prefix;
  }
  return best;
}

bool is_prefixed_operand(const Node& node, const std::string& prefix, std::string* operand) {
  if (prefix == "data_out") {
    *operand = "data_out_0";
  } else if (prefix == "weight" && node.op == "matmul") {
    *operand = "data_in_1";
  } else {
    *operand = prefix;
  }
  return true;
}

}  // namespace

QuantizeConfig::QuantizeConfig(const Table& config, std::string where) : where_(std::move(where)) {
  const Value* name = config.find("name");
  if (name == nullptr) fail("{}: key \"name\" is missing (formats: {})", where_, value_text(Value([] {
    List list;
    for (const std::string& format : format_names()) list.emplace_back(format);
    return list;
  }())));
}

}  // namespace detent
