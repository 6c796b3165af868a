#include "detent/graph/operator_arguments.h"

#include "detent/graph/known_elements.h"
#include "detent/operators/schema.h"

namespace detent {
namespace {

// Interpolation between the elements of an input, as ONNX defines Resize.

/// Takes an input that is given; false where only a run knows it.
template <class T, class Known>
bool take(std::span<const Operand> inputs, size_t index, std::optional<std::vector<T>>& target, Known known) {
  if (!is_given(inputs, index)) return true;
  target = known(inputs, index);
  return target.has_value();
}

Operand infer_resize(const Node& node, std::span<const Operand> inputs) {
  const Operand& input = inputs[0];
  Shape shape = tensor_shape(inputs, 0);
  if (choice_attribute(node, "mode") != "nearest" && input.dtype != DType::kFloat32)
    fail("got a tensor of {} for mode {}, expected float32", dtype_name(input.dtype),
         choice_attribute(node, "mode"));
  const bool crops = choice_attribute(node, "coordinates") == "tf_crop_and_resize";
  if (crops && !is_given(inputs, 1)) fail("coordinates tf_crop_and_resize need input 1, the part");
  ResizeRequest request;
  bool known = !crops || take(inputs, 1, request.roi, known_numbers);
  known = take(inputs, 2, request.scales, known_numbers) && known;
  known = take(inputs, 3, request.sizes, known_integers) && known;
  if (known) {
    for (const ResizedAxis& axis : resized_axes(node, shape, request)) shape[axis.dim] = axis.to;
  } else {
    for (const size_t dim : resized_dims(node, shape.size())) shape[dim] = kOpenSize;
  }
  return {std::move(shape), Value(), input.dtype};
}

AttributeSchema choice(const char* name, const char* help, std::vector<std::string> choices) {
  return {.name = name,
          .kind = AttributeKind::kChoice,
          .default_value = choices.front(),
          .help = help,
          .choices = choices};
}

std::vector<AttributeSchema> resize_attributes() {
  return {
      choice("mode", "what lies between elements", {"nearest", "linear", "cubic"}),
      choice("coordinates", "which place of the input an element of the result stands for",
             {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
              "tf_half_pixel_for_nn", "tf_crop_and_resize"}),
      choice("nearest",
             "which element a place between two takes; simple: ceil where the axis shrinks, else floor",
             {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"}),
      choice("aspect_ratio", "what sizes are: exact, or bounds that keep the ratio of the dimensions",
             {"stretch", "not_larger", "not_smaller"}),
      {"cubic_coeff_a", AttributeKind::kNumber, -0.75, "slope of the cubic kernel at 1"},
      {"exclude_outside", AttributeKind::kBoolean, false,
       "weights of elements outside are 0, the others scaled to the sum 1; else the border repeats"},
      {"extrapolation_value", AttributeKind::kNumber, 0.0, "tf_crop_and_resize: what lies outside"},
      {"antialias", AttributeKind::kBoolean, false, "a wider kernel where a dimension shrinks"},
      {"dims", AttributeKind::kIntegers, Value(), "dimensions that inputs 1 to 3 list; NA: all", true},
  };
}

}  // namespace

std::vector<OperatorSchema> resize_operators() {
  return {{.name = "resize",
           .help =
               "interpolates to the sizes that input 3 lists, or by the factors that input 2 lists; input 1 "
               "is the part that tf_crop_and_resize shows: starts, then ends",
           .min_inputs = 1,
           .max_inputs = 4,
           .attributes = resize_attributes(),
           .infer = infer_resize,
           .dtypes = DTypeRule::kOwn,
           .optional_operands = {"data_in_1", "data_in_2", "data_in_3"},
           .quantizable = true,
           .index_operands = {"data_in_1", "data_in_2", "data_in_3"}}};
}

}  // namespace detent
