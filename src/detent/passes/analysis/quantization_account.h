#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/text_table.h"
#include "detent/core/value.h"
#include "detent/formats/distortion.h"
#include "detent/graph/graph.h"
#include "detent/passes/pass.h"

namespace detent {

/// What quantization does to one node. Where only relu or relu6 reads its result, that of the clamp.
struct NodeAccount {
  std::string node;
  std::string op;
  Distortion alone;     // of its result, when only this node is quantized
  Distortion together;  // of its result, when everything is
  std::optional<Distortion> weight;
  std::optional<double> saturated_share;  // of the inputs that it quantizes
};

/// Of every quantized node, over the first `samples` calibration samples; the one that alone loses most
/// comes first. `reference` is the network before quantization, with the same nodes.
std::vector<NodeAccount> account_for_quantization(const Graph& reference, const Graph& quantized,
                                                  int64_t samples, PassContext& context);

/// SQNR in dB, cosines and shares, a row a node.
TextTable account_table(const std::vector<NodeAccount>& account);
Value account_value(const std::vector<NodeAccount>& account);
/// Which nodes to leave at a higher precision first.
std::string account_advice(const std::vector<NodeAccount>& account);

/// Reports table and advice and writes quantization_account.json and .csv into `folder`.
void report_account(const std::vector<NodeAccount>& account, const std::filesystem::path& folder,
                    const PassContext& context);

}  // namespace detent
