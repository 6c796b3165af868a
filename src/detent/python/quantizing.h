#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "detent/datasets/dataset.h"
#include "detent/evaluation/metrics.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/python/network.h"
#include "detent/workflows/quantize_network.h"
#include "detent/workflows/quantize_passes.h"

namespace detent::python {

struct QuantizeRequest {
  QuantizeWish wish;
  int64_t seed = 0;
  int64_t batch_size = 0;
  int64_t num_workers = 0;
  bool analyzes = true;      // else neither layers are compared with float, nor integers with the simulation
  std::string report;        // the page of `detent quantize --report`; "": none
  std::string cache_format;  // of keys and values of a language model; "": as the options have them
};

/// Results of `detent quantize`, without printing and writing.
struct QuantizeOutcome {
  std::shared_ptr<const Network> network;
  std::optional<Metrics> before;
  std::optional<Metrics> after;
  StorageBits bits_before;
  StorageBits bits_after;
  std::optional<QuantizationAnalysis> analysis;  // none where the network's own quantizers stay
  std::string integer_execution;
};

/// `test`: samples with labels, or nullptr. One at a time: the order of samples is drawn from the generator
/// that all commands draw from.
QuantizeOutcome quantize(const Network& network, const Dataset* calibration, const Dataset* test,
                         const QuantizeRequest& request);

/// Accuracy and loss over samples with labels.
Metrics measure(const Network& network, const Dataset& samples, int64_t batch_size, int64_t num_workers);

}  // namespace detent::python
