#include "detent/graph/known_elements.h"
#include "detent/graph/operators/families.h"

namespace detent {
namespace {

Operand infer_suppression(const Node&, std::span<const Operand> inputs) {
  const Shape& boxes = tensor_shape(inputs, 0);
  const Shape& scores = tensor_shape(inputs, 1);
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (inputs[i].dtype != DType::kFloat32)
      fail("input {} is {}, expected float32", i, dtype_name(inputs[i].dtype));
  }
  const auto differ = [](int64_t a, int64_t b) { return a != b && a != kOpenSize && b != kOpenSize; };
  const bool fits = boxes.size() == 3 && scores.size() == 3 && !differ(boxes[2], 4) &&
                    !differ(boxes[0], scores[0]) && !differ(boxes[1], scores[2]);
  if (!fits) {
    fail("got boxes of shape {} and scores of shape {}, expected [N, B, 4] and [N, C, B]", shape_text(boxes),
         shape_text(scores));
  }
  for (size_t i = 2; i < inputs.size(); ++i) expect_one_element(inputs, i);
  return {{kOpenSize, 3}, Value(), DType::kInt64};
}

}  // namespace

std::vector<OperatorSchema> detection_operators() {
  return {{.name = "non_max_suppression",
           .help =
               "of boxes that overlap those of the best scores: sample, class and box, a row each; inputs 2, "
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
