#pragma once

#include <string>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Checks the results of each node as it runs.
class FirstNonFinite {
 public:
  void see(const Node& node, const Tensor& result);

  /// "the first node whose output is not finite is "fc" (linear), whose weight is not finite either"
  std::string description() const;

 private:
  std::string description_;
};

}  // namespace detent
