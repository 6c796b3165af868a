#include <algorithm>

#include "detent/core/convert.h"
#include "detent/core/element_types.h"
#include "detent/graph/known_elements.h"
#include "detent/operators/schema.h"

namespace detent {
namespace {

// As ONNX defines them; negative indices count from the end.

void expect_indices(std::span<const Operand> inputs, size_t index) {
  const Operand& operand = inputs[index];
  const bool fits = operand.is_tensor() ? operand.dtype == DType::kInt64 || operand.dtype == DType::kInt32
                                        : operand.value.is<int64_t>();
  if (!fits) {
    fail("input {} is {}, expected indices: int64 or int32", index,
         operand.is_tensor() ? dtype_name(operand.dtype) : value_text(operand.value));
  }
}

Shape shape_of_indices(const Operand& indices) { return indices.is_tensor() ? indices.shape : Shape(); }

Operand infer_gather(const Node& node, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  expect_indices(inputs, 1);
  const auto dim = static_cast<int64_t>(dimension_index(integer_attribute(node, "dim"), shape.size()));
  Shape result(shape.begin(), shape.begin() + dim);
  const Shape indices = shape_of_indices(inputs[1]);
  result.insert(result.end(), indices.begin(), indices.end());
  result.insert(result.end(), shape.begin() + dim + 1, shape.end());
  return {std::move(result), Value(), inputs[0].dtype};
}

/// Elements of a list.
std::optional<Tensor> gathered_elements(const Node& /*node*/, std::span<const Operand> inputs,
                                        const Operand& result) {
  const auto given = known_tensor(inputs, 1, DType::kInt64);
  if (!inputs[0].elements || inputs[0].shape.size() != 1 || !given) return std::nullopt;
  const Tensor& list = *inputs[0].elements;
  const Tensor indices = to_dtype(*given, DType::kInt64);
  Tensor elements(result.dtype, result.shape);
  visit_words(result.dtype, [&]<class Word>(Word) {
    for (size_t i = 0; const int64_t index : indices.values<int64_t>()) {
      const int64_t place = index < 0 ? index + list.numel() : index;
      if (place < 0 || place >= list.numel()) fail("index {} of a list of {}", index, list.numel());
      words_of<Word>(elements)[i++] = words_of<Word>(list)[place];
    }
  });
  return elements;
}

OperatorSchema gathering(const char* name, const char* help, ShapeInference infer) {
  return {.name = name,
          .help = help,
          .min_inputs = 2,
          .max_inputs = 2,
          .attributes = {{"dim", AttributeKind::kInteger, 0, "the dimension"}},
          .infer = std::move(infer),
          .dtypes = DTypeRule::kOwn,
          .takes_open_sizes = true,
          .quantizable = true,
          .index_operands = {"data_in_1"}};
}

OperatorSchema gather() {
  OperatorSchema schema =
      gathering("gather", "positions of a dimension, by the indices that are input 1", infer_gather);
  schema.elements = gathered_elements;
  return schema;
}

Operand infer_gather_elements(const Node& node, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  expect_indices(inputs, 1);
  const size_t dim = dimension_index(integer_attribute(node, "dim"), shape.size());
  const Shape& indices = tensor_shape(inputs, 1);
  bool fits = indices.size() == shape.size();
  for (size_t d = 0; fits && d < shape.size(); ++d)
    fits = d == dim || indices[d] <= shape[d] || shape[d] == kOpenSize;
  if (!fits) fail("got indices of shape {} for a tensor of shape {}", shape_text(indices), shape_text(shape));
  return {indices, Value(), inputs[0].dtype};
}

/// The size of the last dimension of the indices, which decides the rank of the result.
int64_t index_depth(const Shape& indices, size_t most) {
  const int64_t depth = indices.empty() ? 0 : indices.back();
  if (depth < 1 || depth > static_cast<int64_t>(most))
    fail("got indices of shape {}, expected a last dimension of 1 to {}", shape_text(indices), most);
  return depth;
}

Operand infer_gather_nd(const Node& node, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  expect_indices(inputs, 1);
  const Shape& indices = tensor_shape(inputs, 1);
  const int64_t batch = integer_attribute(node, "batch_dims");
  if (batch < 0 || batch >= std::min(std::ssize(shape), std::ssize(indices)))
    fail("attribute \"batch_dims\": got {} for shapes {} and {}", batch, shape_text(shape),
         shape_text(indices));
  const int64_t depth = index_depth(indices, shape.size() - static_cast<size_t>(batch));
  Shape result(indices.begin(), indices.end() - 1);
  result.insert(result.end(), shape.begin() + batch + depth, shape.end());
  return {std::move(result), Value(), inputs[0].dtype};
}

OperatorSchema gather_nd() {
  OperatorSchema schema = gathering(
      "gather_nd", "elements or parts by the positions in the last dimension of input 1", infer_gather_nd);
  schema.attributes = {{"batch_dims", AttributeKind::kInteger, 0, "leading dimensions that both share"}};
  return schema;
}

AttributeSchema what_to_do() {
  return {.name = "reduction",
          .kind = AttributeKind::kChoice,
          .default_value = "none",
          .help = "what becomes of the element that was there",
          .choices = {"none", "add", "mul", "max", "min"}};
}

OperatorSchema scattering(const char* name, const char* help, ShapeInference infer) {
  return {.name = name,
          .help = help,
          .min_inputs = 3,
          .max_inputs = 3,
          .attributes = {what_to_do()},
          .infer = std::move(infer),
          .dtypes = DTypeRule::kOwn,
          .takes_open_sizes = true,
          .quantizable = true,
          .index_operands = {"data_in_1"}};
}

void expect_updates(std::span<const Operand> inputs) {
  tensor_shape(inputs, 2);
  if (inputs[2].dtype != inputs[0].dtype)
    fail("input 2 is {}, expected {}", dtype_name(inputs[2].dtype), dtype_name(inputs[0].dtype));
}

bool may_be_equal(const Shape& a, const Shape& b) {
  return std::ranges::equal(a, b,
                            [](int64_t x, int64_t y) { return x == y || x == kOpenSize || y == kOpenSize; });
}

OperatorSchema scatter_elements() {
  OperatorSchema schema = scattering(
      "scatter_elements", "input 0 with the elements of input 2 at the positions of a dimension in input 1",
      [](const Node& node, std::span<const Operand> inputs) -> Operand {
        const Shape& shape = infer_gather_elements(node, inputs).shape;
        expect_updates(inputs);
        if (!may_be_equal(shape, inputs[2].shape))
          fail("got indices of shape {} and elements of shape {}", shape_text(shape),
               shape_text(inputs[2].shape));
        return {inputs[0].shape, Value(), inputs[0].dtype};
      });
  schema.attributes.push_back({"dim", AttributeKind::kInteger, 0, "the dimension"});
  return schema;
}

OperatorSchema scatter_nd() {
  return scattering(
      "scatter_nd", "input 0 with the parts of input 2 at the positions in the last dimension of input 1",
      [](const Node&, std::span<const Operand> inputs) -> Operand {
        const Shape& shape = tensor_shape(inputs, 0);
        expect_indices(inputs, 1);
        expect_updates(inputs);
        const Shape& indices = tensor_shape(inputs, 1);
        const int64_t depth = index_depth(indices, shape.size());
        Shape wanted(indices.begin(), indices.end() - 1);
        wanted.insert(wanted.end(), shape.begin() + depth, shape.end());
        if (!may_be_equal(wanted, inputs[2].shape))
          fail("input 2 has shape {}, expected {}", shape_text(inputs[2].shape), shape_text(wanted));
        return {shape, Value(), inputs[0].dtype};
      });
}

OperatorSchema one_hot() {
  return {.name = "one_hot",
          .help =
              "along a new dimension of size input 1, input 2's second element at the index that input 0 "
              "says, its first elsewhere",
          .min_inputs = 3,
          .max_inputs = 3,
          .attributes = {{"dim", AttributeKind::kInteger, -1, "place of the new dimension"}},
          .infer = [](const Node& node, std::span<const Operand> inputs) -> Operand {
            Shape shape = tensor_shape(inputs, 0);
            if (tensor_shape(inputs, 2) != Shape{2})
              fail("input 2 has shape {}, expected [2]", shape_text(inputs[2].shape));
            const size_t dim = dimension_index(integer_attribute(node, "dim"), shape.size() + 1);
            expect_one_element(inputs, 1);
            const auto depth = known_numbers(inputs, 1);
            if (depth && !(depth->front() >= 1 && depth->front() <= kLargestSize))
              fail("input 1 is no number of 1 to {}", kLargestSize);
            shape.insert(shape.begin() + static_cast<int64_t>(dim),
                         depth ? static_cast<int64_t>(depth->front()) : kOpenSize);
            return {std::move(shape), Value(), inputs[2].dtype};
          },
          .dtypes = DTypeRule::kOwn,
          .takes_open_sizes = true,
          .index_operands = {"data_in_0", "data_in_1"}};
}

OperatorSchema nonzero() {
  return {.name = "nonzero",
          .help = "positions of the elements that are not zero, a row a dimension",
          .infer = [](const Node&, std::span<const Operand> inputs) -> Operand {
            return {{std::ssize(tensor_shape(inputs, 0)), kOpenSize}, Value(), DType::kInt64};
          },
          .dtypes = DTypeRule::kOwn,
          .takes_open_sizes = true};
}

/// Slices of the dtype of input 0, then positions and counts.
std::vector<Operand> infer_unique(const Node& node, std::span<const Operand> inputs) {
  Shape shape = tensor_shape(inputs, 0);
  const size_t dim = dimension_index(integer_attribute(node, "dim"), shape.size());
  const int64_t size = shape[dim];
  shape[dim] = kOpenSize;
  const Operand some{{kOpenSize}, Value(), DType::kInt64};
  return {{shape, Value(), inputs[0].dtype}, some, {{size}, Value(), DType::kInt64}, some};
}

OperatorSchema unique() {
  return {.name = "unique",
          .help =
              "the different slices of a dimension; the position of the first of each, which of them each "
              "slice is, and how often each is there",
          .attributes = {{"dim", AttributeKind::kInteger, 0, "the dimension"},
                         {"sorted", AttributeKind::kBoolean, true,
                          "in the order of their elements, NaN last; else as they come"}},
          .infer_results = infer_unique,
          .result_count = [](const Node&) { return size_t{4}; },
          .dtypes = DTypeRule::kOwn,
          .takes_open_sizes = true};
}

OperatorSchema trilu() {
  return {
      .name = "trilu",
      .help = "the upper or lower triangle of matrices, from the diagonal that input 1 gives on, and zeros",
      .max_inputs = 2,
      .attributes = {{"upper", AttributeKind::kBoolean, true, "the upper triangle"}},
      .infer = [](const Node&, std::span<const Operand> inputs) -> Operand {
        const Shape& shape = tensor_shape(inputs, 0);
        if (shape.size() < 2) fail("got a tensor of shape {}, expected matrices", shape_text(shape));
        if (is_given(inputs, 1)) expect_indices(inputs, 1);
        expect_one_element(inputs, 1);
        return {shape, Value(), inputs[0].dtype};
      },
      .dtypes = DTypeRule::kOwn,
      .takes_open_sizes = true,
      .optional_operands = {"data_in_1"},
      .index_operands = {"data_in_1"}};
}

}  // namespace

std::vector<OperatorSchema> gather_operators() {
  return {gather(),
          gathering("gather_elements", "elements by their position along a dimension, which input 1 gives",
                    infer_gather_elements),
          gather_nd(),
          scatter_elements(),
          scatter_nd(),
          one_hot(),
          nonzero(),
          unique(),
          trilu()};
}

}  // namespace detent
