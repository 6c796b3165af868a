#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detent/graph/operator_arguments.h"

namespace detent {

/// The elements of the input that an element of the result is made of.
struct ResizeTaps {
  std::vector<int64_t> places;
  std::vector<double> weights;
};

/// A dimension whose elements are sums of `taps`, one entry for each; all of them have as many.
struct ResampledAxis {
  size_t dim;
  std::vector<ResizeTaps> taps;
};

/// How a node of `resize` interpolates along one dimension, as ONNX defines it.
class ResizeWeights {
 public:
  ResizeWeights(const Node& node, const ResizedAxis& axis);

  /// Taps of element `i` of the result; all elements have as many.
  ResizeTaps at(int64_t i) const;
  /// Whether the element stands for a place outside of the input.
  bool is_outside(int64_t i) const;

 private:
  double place_of(int64_t i) const;
  ResizeTaps around(double place) const;

  ResizedAxis axis_;
  std::string mode_;
  std::string coordinates_;
  std::string rounding_;
  double cubic_a_;
  bool excludes_;
  bool antialias_;
};

/// Whether every element of a result of `taps` is that of the input at its place, of `from` elements.
bool is_copy(const std::vector<ResizeTaps>& taps, int64_t from);

}  // namespace detent
