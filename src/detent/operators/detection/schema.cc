#include <algorithm>

#include "detent/graph/known_elements.h"
#include "detent/operators/schema.h"

namespace detent {
namespace {

/// Sizes that are known and not the same.
bool differ(int64_t a, int64_t b) { return a != b && a != kOpenSize && b != kOpenSize; }

Operand infer_suppression(const Node&, std::span<const Operand> inputs) {
  const Shape& boxes = tensor_shape(inputs, 0);
  const Shape& scores = tensor_shape(inputs, 1);
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (inputs[i].dtype != DType::kFloat32)
      fail("input {} is {}, expected float32", i, dtype_name(inputs[i].dtype));
  }
  const bool fits = boxes.size() == 3 && scores.size() == 3 && !differ(boxes[2], 4) &&
                    !differ(boxes[0], scores[0]) && !differ(boxes[1], scores[2]);
  if (!fits) {
    fail("got boxes of shape {} and scores of shape {}, expected [N, B, 4] and [N, C, B]", shape_text(boxes),
         shape_text(scores));
  }
  for (size_t i = 2; i < inputs.size(); ++i) expect_one_element(inputs, i);
  return {{kOpenSize, 3}, Value(), DType::kInt64};
}

Operand infer_regions(const Node& node, std::span<const Operand> inputs) {
  constexpr int64_t kMost = 4096;
  const Shape& images = tensor_shape(inputs, 0);
  const Shape& regions = tensor_shape(inputs, 1);
  const Shape& which = tensor_shape(inputs, 2);
  if (images.size() != 4 || regions.size() != 2 || which.size() != 1 || differ(regions[1], 4) ||
      differ(regions[0], which[0])) {
    fail(
        "got images of shape {}, regions of shape {} and indices of shape {}, expected [N, C, H, W], [R, 4] "
        "and [R]",
        shape_text(images), shape_text(regions), shape_text(which));
  }
  if (images[2] == 0 || images[3] == 0) fail("got images of shape {}, without pixels", shape_text(images));
  const auto sizes = integers_attribute(node, "output_size", 2);
  const int64_t samples = integer_attribute(node, "sampling_ratio");
  if (std::ranges::min(sizes) < 1 || std::ranges::max(sizes) > kMost || samples < 0 || samples > kMost) {
    fail("got bins {} of {} samples, expected 1 to {} of 0 to {}", shape_text(sizes), samples, kMost, kMost);
  }
  return {{regions[0] == kOpenSize ? which[0] : regions[0], images[1], sizes[0], sizes[1]}, Value()};
}

Operand infer_grid_samples(const Node& node, std::span<const Operand> inputs) {
  const Shape& images = tensor_shape(inputs, 0);
  const Shape& grid = tensor_shape(inputs, 1);
  const size_t rank = images.size();
  const bool fits = rank >= 3 && rank <= 5 && grid.size() == rank &&
                    !differ(grid.back(), static_cast<int64_t>(rank) - 2) && !differ(images[0], grid[0]);
  if (!fits) {
    fail("got images of shape {} and a grid of shape {}, expected [N, C, ...] and [N, ..., {}]",
         shape_text(images), shape_text(grid), rank < 3 ? 2 : rank - 2);
  }
  if (inputs[1].dtype != DType::kFloat32)
    fail("got a grid of {}, expected float32", dtype_name(inputs[1].dtype));
  if (std::find(images.begin() + 2, images.end(), 0) != images.end())
    fail("got images of shape {}, without pixels", shape_text(images));
  if (choice_attribute(node, "mode") == "cubic" && rank != 4)
    fail("cubic samples of images of shape {}, expected [N, C, H, W]", shape_text(images));
  Shape result = {images[0] == kOpenSize ? grid[0] : images[0], images[1]};
  result.insert(result.end(), grid.begin() + 1, grid.end() - 1);
  return {std::move(result), Value()};
}

OperatorSchema grid_sample() {
  return {
      .name = "grid_sample",
      .help =
          "images [N, C, ...] at the places of a grid, from -1 to 1 along each dimension, the last one first",
      .min_inputs = 2,
      .max_inputs = 2,
      .attributes = {{.name = "mode",
                      .kind = AttributeKind::kChoice,
                      .default_value = "linear",
                      .help = "how pixels make a value between them",
                      .choices = {"linear", "nearest", "cubic"}},
                     {.name = "padding_mode",
                      .kind = AttributeKind::kChoice,
                      .default_value = "zeros",
                      .help = "pixels beyond the image",
                      .choices = {"zeros", "border", "reflection"}},
                     {"align_corners", AttributeKind::kBoolean, false,
                      "-1 and 1 are the centres of the first and the last pixel, else their outer edges"}},
      .infer = infer_grid_samples,
      .takes_open_sizes = true,
      .quantizable = true,
      .index_operands = {"data_in_1"}};
}

OperatorSchema roi_align() {
  return {
      .name = "roi_align",
      .help =
          "the mean or the largest of samples in each bin of regions [R, 4] (x1, y1, x2, y2) of images; "
          "input 2 has the image of each",
      .min_inputs = 3,
      .max_inputs = 3,
      .attributes = {{"output_size", AttributeKind::kIntegers, 1, "rows and columns of bins"},
                     {"sampling_ratio", AttributeKind::kInteger, 0,
                      "samples of a bin in each dimension; 0: as many as it has pixels"},
                     {"spatial_scale", AttributeKind::kNumber, 1.0, "pixels for each unit of the regions"},
                     {"half_pixel", AttributeKind::kBoolean, true,
                      "coordinates are those of the corners of pixels; else of their centres, and sizes are "
                      "at least 1"},
                     {.name = "reduction",
                      .kind = AttributeKind::kChoice,
                      .default_value = "mean",
                      .help = "of the samples of a bin",
                      .choices = {"mean", "max"}}},
      .infer = infer_regions,
      .takes_open_sizes = true,
      .quantizable = true,
      .index_operands = {"data_in_1", "data_in_2"}};
}

}  // namespace

std::vector<OperatorSchema> detection_operators() {
  return {
      roi_align(),
      grid_sample(),
      {.name = "non_max_suppression",
       .help = "of boxes that overlap those of the best scores: sample, class and box, a row each; inputs 2, "
               "3 and 4 are the most boxes of a class, the largest overlap and the least score",
       .min_inputs = 2,
       .max_inputs = 5,
       .attributes = {{"center_point_box", AttributeKind::kBoolean, false,
                       "boxes are x, y of the centre, width, height; else y, x of two corners"}},
       .infer = infer_suppression,
       .dtypes = DTypeRule::kOwn,
       .takes_open_sizes = true,
       .optional_operands = {"data_in_2", "data_in_3", "data_in_4"},
       .index_operands = {"data_in_2", "data_in_3", "data_in_4"}}};
}

}  // namespace detent
