#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detent/core/value.h"
#include "detent/formats/quant_spec.h"
#include "detent/statistics/calibration.h"

namespace detent {

/// An operand of a node, as save_node_meta_param saves it, and the results of its statistics: name -> result;
/// empty when none were collected.
struct OperandStatistics {
  std::string operand;  // "data_in_0", "weight", "data_out_0"
  Table results;
};

/// The table under `key`, nullptr if absent. Throws Error, beginning with `where`, if it is no table.
const Table* find_table(const Table& table, std::string_view key, const std::string& where);

/// Arguments, then results, of the node that `block` describes. Throws Error, beginning with `where`, on
/// tables of the wrong kind.
std::vector<OperandStatistics> read_operand_statistics(const Table& block, const std::string& where);

struct StatToConfInput {
  Table statistics;             // as save_node_meta_param writes it: a table a node
  std::string statistics_file;  // for messages
  /// A configuration with [passes.quantize.default.config].
  std::optional<Table> base = std::nullopt;
  std::string base_file = {};
  /// Specs of the default's config, in place of the base's: prefix ("data_in", "weight", "bias", "data_out")
  /// and spec, or nullopt to leave such operands alone.
  std::vector<std::pair<std::string, std::optional<QuantSpec>>> formats = {};
  /// How the parameters of formats are computed from the statistics; nullopt: of ternary as below, others
  /// stay as the base has them.
  std::optional<CalibrationOptions> calibration = std::nullopt;
};

/// The base as a configuration that quantizes by name. Each node that has statistics of its arguments, and
/// that the base does not configure, gets a copy of the default's keys for the operands it has; of the keys
/// mean, median and max that the operand's format takes, those that are missing or NA are filled from the
/// node's own abs_mean, range_quantile.max and range_min_max.max. A node that the base configures keeps what
/// the base says; operands for which the base says none of mean, median, max and threshold are filled. The
/// default stays as it is. Without a base: ternary, scaled, for data_in, weight and bias.
///
/// With `calibration`, every operand that is to be quantized gets instead the parameters that `calibrate`
/// computes for its format, unless the base gives them for its node; formats without such parameters stay as
/// they are, and so do operands with granularity "group" where statistics are not of such groups: their
/// scales follow from the tensor itself.
///
/// `warn` gets probable mistakes. Throws Error naming file, node and operand if an operand to quantize lacks
/// these statistics, and on tables of the wrong kind.
Table stat_to_conf(const StatToConfInput& input, const std::function<void(const std::string&)>& warn);

}  // namespace detent
