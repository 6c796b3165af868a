#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// What a node of `resize` makes of one dimension.
struct ResizedAxis {
  size_t dim = 0;
  int64_t from = 0;
  int64_t to = 0;
  double scale = 1;  // as given, or to / from
  /// The part of the dimension that is shown, of 0 to 1; attribute `coordinates` tf_crop_and_resize only.
  double start = 0;
  double end = 1;
};

/// The inputs of such a node that are given: a part (starts, then ends), and scales or sizes, all of the
/// dimensions that the attribute `dims` lists.
struct ResizeRequest {
  std::optional<std::vector<double>> roi = {};
  std::optional<std::vector<double>> scales = {};
  std::optional<std::vector<int64_t>> sizes = {};
};

/// The dimensions that the attribute `dims` lists, or all of a tensor of that rank.
std::vector<size_t> resized_dims(const Node& node, size_t rank);
/// Throws Error when the request does not fit the shape.
std::vector<ResizedAxis> resized_axes(const Node& node, const Shape& shape, const ResizeRequest& request);

}  // namespace detent
