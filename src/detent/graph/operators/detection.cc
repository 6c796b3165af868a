#include <algorithm>

#include "detent/graph/known_elements.h"
#include "detent/graph/operators/families.h"

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
