#include "detent/passes/reconstruction/choosing_cost.h"

#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/passes/reconstruction/im2col.h"

// A run of the network for the choice, another one in float beside it where its outputs are the aim, and two
// for the biases. Of each layer with n inputs the second moments take n^2 / 2 products a row, and those with
// what the inputs moved by three times as much; their inverse about n^3; spreading an error over the weights
// after it n^2 a row of the weight.

namespace detent {

ChoosingCost choosing_cost(const Graph& network, RoundingTarget target, const NamedSizes& sizes) {
  const bool beside_float = target == RoundingTarget::kFloatNetwork;
  const double runs = beside_float ? 4 : 3;
  const double moments = beside_float ? 4 : 1;
  const std::vector<double> products = node_multiply_adds(network, sizes);
  ChoosingCost cost;
  for (size_t i = 0; i < products.size(); ++i) {
    const Node& node = network.nodes()[i];
    cost.per_sample += runs * products[i];
    if (!is_weighted_sum(node) || !Im2Col::exist_for(node)) continue;
    const Im2Col im2col(node, node.name);
    const auto groups = static_cast<double>(im2col.groups());
    const auto length = static_cast<double>(im2col.length());
    const double rows = groups * static_cast<double>(im2col.rows_per_group());
    cost.per_sample += moments * products[i] * length * groups / (2 * rows);
    cost.per_step += rows * length * length;
    cost.fixed += groups * length * length * length + rows * length * length;
  }
  return cost;
}

}  // namespace detent
