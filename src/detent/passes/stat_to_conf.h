#pragma once

#include <functional>
#include <optional>
#include <string>

#include "detent/core/value.h"

namespace detent {

struct StatToConfInput {
  Table statistics;             // as save_node_meta_param writes it: a table a node
  std::string statistics_file;  // for messages
  std::optional<Table> base;    // a configuration with [passes.quantize.default.config]
  std::string base_file;
};

/// The base as a configuration that quantizes by name. Each node that has statistics of its arguments, and
/// that the base does not configure, gets a copy of the default's keys for the operands it has; of the keys
/// mean, median and max that the operand's format takes, those that are missing or NA are filled from the
/// node's own abs_mean, range_quantile.max and range_min_max.max. A node that the base configures keeps what
/// the base says; operands for which the base says none of mean, median, max and threshold are filled. The
/// default stays as it is. Without a base: ternary, scaled, for data_in, weight and bias.
///
/// `warn` hears of what is probably not meant. Throws Error naming file, node and operand when an operand
/// that is to be quantized has none of these statistics, and on tables of the wrong kind.
Table stat_to_conf(const StatToConfInput& input, const std::function<void(const std::string&)>& warn);

}  // namespace detent
