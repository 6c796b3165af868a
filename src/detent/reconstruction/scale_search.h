#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"
#include "detent/reconstruction/matrix.h"

namespace detent {

/// The candidates: so many factors of a group's range in even steps, and 1.
struct ScaleSearchOptions {
  double smallest = 0.4;
  double largest = 1.2;
  int64_t candidates = 41;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("smallest", self.smallest, "smallest range that is tried, as a share of the weights' own",
          Between{0.01, 1});
    visit("largest", self.largest, "largest range that is tried, likewise", Between{1, 16});
    visit("candidates", self.candidates, "ranges that are tried between these, in even steps",
          Between{2, 4096});
  }
};

/// Whether the parameters of the format follow from a range, so that there is something to search.
bool has_searchable_scales(const QuantSpec& spec);

struct SearchedScales {
  QuantSpec spec;
  double signal = 0;  // mean square of the layer's outputs, summed over its rows, as are these:
  double before = 0;  // of their errors with ranges that hold all weights
  double after = 0;   // and with those that were chosen; both without what groups of one row do to each other
};

/// For each group of the weight (float32, [rows, ...]) that shares a scale, of all candidates the range with
/// the least mean squared error d H d^T of what the group adds to the layer's outputs, d being the
/// differences of its weights. `grams` has the mean H of x x^T over the inputs x of each group of the
/// weight's rows (GramMatrices). The search is exhaustive, and asks the format for nothing but its parameters
/// for a range and for its rounding. Of equal errors the range of the weights themselves, then the smaller
/// one.
SearchedScales search_scales(const QuantSpec& spec, const Tensor& weight,
                             const std::vector<Matrix<double>>& grams, const ScaleSearchOptions& options,
                             const std::string& where);

}  // namespace detent
