#include "detent/graph/operator_arguments.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/operators/schema.h"

namespace detent {
namespace {

void expect_count(const char* what, size_t count, size_t expected) {
  if (count != expected) fail("got {} {}, expected {}", count, what, expected);
}

int64_t rounded_size(double size) {
  if (!(size >= 0 && size <= static_cast<double>(kLargestSize)))
    fail("a size of {}, expected 0 to {}", size, kLargestSize);
  return static_cast<int64_t>(size);
}

/// Takes the scales of a part of the input, where coordinates are those of a part.
void take_scales(std::vector<ResizedAxis>& axes, const std::vector<double>& scales) {
  expect_count("scales", scales.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizedAxis& axis = axes[i];
    if (!(scales[i] > 0 && std::isfinite(scales[i]))) fail("got a scale of {}, expected above 0", scales[i]);
    axis.scale = scales[i];
    const auto part = static_cast<float>(axis.end - axis.start);
    const float size = static_cast<float>(axis.from) * part * static_cast<float>(axis.scale);
    axis.to = rounded_size(std::floor(static_cast<double>(size)));
  }
}

/// All axes with one scale, so that none is larger, or smaller, than wanted.
void keep_aspect_ratio(std::vector<ResizedAxis>& axes, bool not_larger) {
  double scale = axes.front().scale;
  for (const ResizedAxis& axis : axes)
    scale = not_larger ? std::min(scale, axis.scale) : std::max(scale, axis.scale);
  for (ResizedAxis& axis : axes) {
    axis.scale = scale;
    axis.to = rounded_size(std::floor(scale * static_cast<double>(axis.from) + 0.5));
  }
}

void take_sizes(std::vector<ResizedAxis>& axes, const std::vector<int64_t>& sizes,
                const std::string& policy) {
  expect_count("sizes", sizes.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    expect_size("a size", sizes[i], 0);
    axes[i].to = sizes[i];
    axes[i].scale = static_cast<double>(sizes[i]) / static_cast<double>(axes[i].from);
  }
  if (policy != "stretch" && !axes.empty()) keep_aspect_ratio(axes, policy == "not_larger");
}

}  // namespace

std::vector<size_t> resized_dims(const Node& node, size_t rank) {
  std::vector<size_t> dims;
  if (node.attributes.find("dims")->is_na()) {
    for (size_t d = 0; d < rank; ++d) dims.push_back(d);
    return dims;
  }
  for (const int64_t dim : integers_attribute(node, "dims")) dims.push_back(dimension_index(dim, rank));
  if (std::set(dims.begin(), dims.end()).size() != dims.size())
    fail("attribute \"dims\": got {}, expected each dimension once",
         value_text(*node.attributes.find("dims")));
  return dims;
}

std::vector<ResizedAxis> resized_axes(const Node& node, const Shape& shape, const ResizeRequest& request) {
  std::vector<ResizedAxis> axes;
  for (const size_t dim : resized_dims(node, shape.size())) axes.push_back({dim, shape[dim], shape[dim]});
  if (request.roi) {
    expect_count("bounds of a part", request.roi->size(), 2 * axes.size());
    for (size_t i = 0; i < axes.size(); ++i) {
      axes[i].start = (*request.roi)[i];
      axes[i].end = (*request.roi)[i + axes.size()];
      if (!std::isfinite(axes[i].start) || !std::isfinite(axes[i].end))
        fail("got a part from {} to {}, expected finite numbers", axes[i].start, axes[i].end);
    }
  }
  if (request.scales.has_value() == request.sizes.has_value())
    fail("got {} scales and sizes, expected one of them", request.scales ? "both" : "neither");
  if (request.scales) take_scales(axes, *request.scales);
  if (request.sizes) take_sizes(axes, *request.sizes, choice_attribute(node, "aspect_ratio"));
  for (const ResizedAxis& axis : axes) {
    if (axis.from == 0 && axis.to > 0) fail("dimension {} has no elements", axis.dim);
  }
  return axes;
}

}  // namespace detent
