#pragma once

#include <optional>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/formats/quant_spec.h"

namespace detent {

// The keys of one operand in a `config` table of the quantize pass: "weight_width" is the key "width" of the
// operands that the prefix "weight" stands for.

/// data_in (every input from another node), data_in_0, data_in_1, weight (of matmul and bmm: the second
/// input), bias, data_out.
const std::vector<std::string>& operand_prefixes();

/// The longest operand prefix of `key`, "" for keys of the whole node.
std::string prefix_of_key(const std::string& key);

/// The keys with that prefix, without it.
Table keys_with_prefix(const Table& config, const std::string& prefix);

/// Whether `config` covers such operands: it has keys of the prefix; a bias takes the weight's; and without
/// any operand's keys, data_in, weight and bias are meant.
bool quantizes_operand(const Table& config, const std::string& prefix);

/// The name of the format for operands of `prefix`: `<prefix>_name`, else `name`; nullopt when that is NA.
/// Throws Error, beginning with `where`, when there is neither and on what is no text.
std::optional<std::string> format_of_operand(const Table& config, const std::string& prefix,
                                             const std::string& where);

/// Spec by which `config` quantizes operands of `prefix`: `<prefix>_name`, else `name`, with the keys of the
/// prefix; a bias without keys takes those of the weight. nullopt when it leaves them alone. Throws Error,
/// beginning with `where`, on what is no spec.
std::optional<QuantSpec> operand_spec(const Table& config, const std::string& prefix,
                                      const std::string& where);

/// Replaces the keys of `prefix` by those of `spec`, or by a name that leaves such operands alone.
void set_operand_spec(Table& config, const std::string& prefix, const std::optional<QuantSpec>& spec);

}  // namespace detent
