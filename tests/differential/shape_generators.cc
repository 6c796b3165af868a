#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "case.h"
#include "detent/core/convert.h"

namespace detent {
namespace {

/// Whatever moves elements takes them as they are.
Wanted anything(GraphWriter& writer, int64_t least_rank = 0) {
  std::vector<DType> dtypes = {writer.real};
  if (writer.random.chance(0.4))
    dtypes = {DType::kInt64, DType::kInt32, DType::kBool, DType::kUInt8, DType::kInt8, writer.real};
  return {.dtypes = dtypes, .least_rank = least_rank, .may_be_wild = true};
}

int64_t count_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

/// Factors of the count, and ones.
Shape other_shape(Random& random, int64_t count) {
  Shape result;
  for (int64_t i = random.between(0, 3); i > 0; --i) {
    std::vector<int64_t> factors;
    for (int64_t f = 1; f <= count; ++f) {
      if (count % f == 0) factors.push_back(f);
    }
    result.push_back(random.of(factors));
    count /= result.back();
  }
  if (count > 1 || random.chance(0.2)) result.push_back(count);
  random.shuffle(result);
  return result;
}

void write_reshape(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = writer.operand(anything(writer));
  const int64_t count = count_of(x.shape);
  const Shape shape = count == 0 ? x.shape : other_shape(random, count);
  std::vector<int64_t> wanted = shape;
  std::vector<OnnxAttribute> attributes;
  const bool allows_zero = writer.is_at_least(14) && (count == 0 || random.chance(0.1));
  if (allows_zero) attributes.emplace_back("allowzero", 1);
  if (!wanted.empty() && count > 0 && random.chance(0.4))
    wanted[static_cast<size_t>(random.between(0, std::ssize(wanted) - 1))] = -1;
  for (size_t i = 0; i < wanted.size() && !allows_zero; ++i) {
    if (i < x.shape.size() && x.shape[i] == wanted[i] && random.chance(0.3)) wanted[i] = 0;
  }
  writer.node(op, {x, writer.list(wanted)}, attributes, {x.dtype, shape, x.numbers});
}

void write_flatten(GraphWriter& writer, const std::string& op) {
  Wanted wanted = anything(writer);
  if (!writer.is_at_least(9)) wanted.dtypes = {writer.real};
  const GeneratedValue x = writer.operand(wanted);
  const int64_t rank = x.rank();
  std::vector<OnnxAttribute> attributes;
  int64_t axis = std::min<int64_t>(1, rank);
  if (rank == 0 || writer.random.chance(0.7)) {
    const int64_t given = writer.random.between(writer.is_at_least(11) ? -rank : 0, rank);
    attributes.emplace_back("axis", given);
    axis = normal_axis(given, rank);
  }
  const Shape before(x.shape.begin(), x.shape.begin() + axis);
  const Shape after(x.shape.begin() + axis, x.shape.end());
  writer.node(op, {x}, attributes, {x.dtype, {count_of(before), count_of(after)}, x.numbers});
}

void write_transpose(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x = writer.operand(anything(writer));
  std::vector<int64_t> order(x.shape.size());
  std::iota(order.rbegin(), order.rend(), 0);
  std::vector<OnnxAttribute> attributes;
  if (writer.random.chance(0.8) && !order.empty()) {
    writer.random.shuffle(order);
    attributes.emplace_back("perm", order);
  }
  Shape shape;
  for (const int64_t d : order) shape.push_back(x.shape[static_cast<size_t>(d)]);
  writer.node(op, {x}, attributes, {x.dtype, shape, x.numbers});
}

void write_concat(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue first = writer.operand(anything(writer, 1));
  const int64_t axis = writer.axis(first.rank());
  const auto dim = static_cast<size_t>(normal_axis(axis, first.rank()));
  std::vector<GeneratedValue> inputs = {first};
  Shape shape = first.shape;
  Numbers numbers = first.numbers;
  for (int64_t i = random.between(0, 3); i > 0; --i) {
    Shape next = first.shape;
    next[dim] = random.between(random.chance(0.1) ? 0 : 1, 3);
    const GeneratedValue part = writer.operand(
        {.dtypes = {first.dtype}, .shape = random.chance(0.5) ? first.shape : next, .may_be_wild = true});
    inputs.push_back(part);
    shape[dim] += part.shape[dim];
    numbers = either(numbers, part.numbers);
  }
  writer.node(op, inputs, {{"axis", axis}}, {first.dtype, shape, numbers});
}

void write_split(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = writer.operand(anything(writer, 1));
  int64_t axis = 0;
  std::vector<OnnxAttribute> attributes;
  if (random.chance(0.8)) attributes.emplace_back("axis", axis = writer.axis(x.rank()));
  const auto dim = static_cast<size_t>(normal_axis(axis, x.rank()));
  const int64_t size = x.shape[dim];
  const int64_t parts = random.between(1, 3);
  std::vector<int64_t> sizes(static_cast<size_t>(parts), 0);
  std::vector<GeneratedValue> inputs = {x};
  const bool is_even = size % parts == 0 || (writer.is_at_least(18) && size >= parts);
  if (is_even && random.chance(0.4)) {
    const int64_t each = (size + parts - 1) / parts;
    int64_t left = size;
    for (int64_t& part : sizes) {
      part = std::min(each, left);
      left -= part;
    }
    if (writer.is_at_least(18)) attributes.emplace_back("num_outputs", parts);
  } else {
    for (int64_t i = 0; i < size; ++i) ++sizes[static_cast<size_t>(random.between(0, parts - 1))];
    if (writer.is_at_least(13)) {
      inputs.push_back(writer.list(sizes));
    } else {
      attributes.emplace_back("split", sizes);
    }
  }
  std::vector<Result> results;
  for (const int64_t part : sizes) {
    Shape shape = x.shape;
    shape[dim] = part;
    results.push_back({x.dtype, shape, x.numbers});
  }
  writer.node(op, inputs, attributes, results);
}

/// One dimension of a Slice, by ONNX's rule: negative positions count from the end, and all are clamped.
int64_t sliced_size(int64_t start, int64_t end, int64_t step, int64_t size) {
  const auto clamped = [&](int64_t position, int64_t low, int64_t high) {
    if (position < 0) position += size;
    return std::clamp(position, low, high);
  };
  if (step > 0) {
    const int64_t first = clamped(start, 0, size);
    const int64_t last = clamped(end, 0, size);
    return first >= last ? 0 : (last - first - 1) / step + 1;
  }
  const int64_t first = clamped(start, 0, size - 1);
  const int64_t last = clamped(end, -1, size - 1);
  const auto stride = -static_cast<uint64_t>(step);
  return first <= last ? 0 : static_cast<int64_t>(static_cast<uint64_t>(first - last - 1) / stride) + 1;
}

void write_slice(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = writer.operand(anything(writer, 1));
  using Limits = std::numeric_limits<int64_t>;
  const bool is_narrow = writer.is_at_least(10) && random.chance(0.3);
  const auto position = [&](int64_t size) -> int64_t {
    if (random.chance(0.8)) return random.between(-size - 1, size + 1);
    if (is_narrow)
      return random.of<int64_t>(
          {std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min() + 1, 100, -100});
    return random.of({Limits::max(), Limits::min() + 1, Limits::min(), int64_t{100}, int64_t{-100},
                      Limits::max() - 1, int64_t{1} << 53});
  };
  std::vector<int64_t> dims(x.shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  const bool has_axes = random.chance(0.8);
  if (has_axes) random.shuffle(dims);
  dims.resize(static_cast<size_t>(random.between(1, x.rank())));
  const bool has_steps = writer.is_at_least(10) && random.chance(0.6);
  std::vector<int64_t> starts;
  std::vector<int64_t> ends;
  std::vector<int64_t> steps;
  std::vector<int64_t> axes;
  Shape shape = x.shape;
  for (const int64_t d : dims) {
    const int64_t size = x.shape[static_cast<size_t>(d)];
    starts.push_back(position(size));
    ends.push_back(position(size));
    steps.push_back(has_steps ? random.of<int64_t>({1, 2, -1, -2, 3, -1,
                                                    random.chance(0.1) && !is_narrow ? Limits::max() : 1})
                              : 1);
    axes.push_back(writer.is_at_least(10) && random.chance(0.3) ? d - x.rank() : d);
    shape[static_cast<size_t>(d)] =
        size == 0 ? 0 : sliced_size(starts.back(), ends.back(), steps.back(), size);
  }
  Numbers numbers = x.numbers;
  if (!writer.is_at_least(10)) {
    std::vector<OnnxAttribute> attributes = {{"starts", starts}, {"ends", ends}};
    if (has_axes) attributes.emplace_back("axes", axes);
    writer.node(op, {x}, attributes, {x.dtype, shape, numbers});
    return;
  }
  const DType dtype = is_narrow ? DType::kInt32 : DType::kInt64;
  std::vector<GeneratedValue> inputs = {x, writer.list(starts, dtype), writer.list(ends, dtype)};
  inputs.push_back(has_axes ? writer.list(axes, dtype) : GraphWriter::absent());
  inputs.push_back(has_steps ? writer.list(steps, dtype) : GraphWriter::absent());
  writer.node(op, inputs, {}, {x.dtype, shape, numbers});
}

/// An attribute before opset 13, an input from then on.
void write_with_axes(GraphWriter& writer, const std::string& op, const GeneratedValue& x,
                     const std::vector<int64_t>& axes, const Shape& shape) {
  if (writer.is_at_least(13)) {
    writer.node(op, {x, writer.list(axes)}, {}, {x.dtype, shape, x.numbers});
  } else {
    writer.node(op, {x}, {{"axes", axes}}, {x.dtype, shape, x.numbers});
  }
}

void write_squeeze(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  Shape with_ones = writer.shape(0, 3);
  with_ones.insert(with_ones.begin() + random.between(0, std::ssize(with_ones)), 1);
  Wanted wanted = anything(writer, 1);
  if (random.chance(0.6)) wanted.shape = with_ones;
  const GeneratedValue x = writer.operand(wanted);
  std::vector<int64_t> axes;
  Shape shape;
  const bool takes_all = random.chance(0.2);
  for (int64_t d = 0; d < x.rank(); ++d) {
    const int64_t size = x.shape[static_cast<size_t>(d)];
    if (size == 1 && (takes_all || random.chance(0.7))) {
      axes.push_back(writer.is_at_least(11) && random.chance(0.4) ? d - x.rank() : d);
    } else {
      shape.push_back(size);
    }
  }
  random.shuffle(axes);
  if (takes_all) {
    writer.node(op, {x}, {}, {x.dtype, shape, x.numbers});
  } else if (!axes.empty()) {
    write_with_axes(writer, op, x, axes, shape);
  }
}

void write_unsqueeze(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  Wanted wanted = anything(writer);
  wanted.most_rank = 3;
  const GeneratedValue x = writer.operand(wanted);
  const int64_t rank = x.rank() + random.between(1, 2);
  std::vector<int64_t> places(static_cast<size_t>(rank));
  std::iota(places.begin(), places.end(), 0);
  random.shuffle(places);
  places.resize(static_cast<size_t>(rank - x.rank()));
  Shape shape;
  for (int64_t d = 0, next = 0; d < rank; ++d) {
    const bool is_new = std::ranges::find(places, d) != places.end();
    shape.push_back(is_new ? 1 : x.shape[static_cast<size_t>(next++)]);
  }
  for (int64_t& place : places) {
    if (writer.is_at_least(11) && random.chance(0.4)) place -= rank;
  }
  write_with_axes(writer, op, x, places, shape);
}

void write_pad(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  std::vector<DType> dtypes = {writer.real};
  if (writer.is_at_least(11) && random.chance(0.3)) dtypes = {DType::kInt64, DType::kInt32};
  if (writer.is_at_least(13) && random.chance(0.1)) dtypes = {DType::kBool};
  const std::string mode =
      random.of({"constant", "constant", "reflect", "edge", writer.is_at_least(19) ? "wrap" : "edge"});
  const GeneratedValue x = writer.operand(
      {.dtypes = dtypes, .least_rank = 1, .may_be_wild = true, .may_be_empty = mode == "constant"});
  const auto rank = x.shape.size();
  std::vector<int64_t> dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  const bool has_axes = writer.is_at_least(18) && random.chance(0.4);
  if (has_axes) {
    random.shuffle(dims);
    dims.resize(static_cast<size_t>(random.between(1, x.rank())));
  }
  std::vector<int64_t> pads(2 * dims.size());
  Shape shape = x.shape;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t size = x.shape[static_cast<size_t>(dims[i])];
    const int64_t most = mode == "reflect" ? size - 1 : mode == "wrap" ? size : 2;
    const int64_t least = mode == "constant" && size > 1 && random.chance(0.2) ? -1 : 0;
    pads[i] = random.between(least, std::min<int64_t>(most, 2));
    pads[i + dims.size()] = random.between(size + pads[i] > 1 ? least : 0, std::min<int64_t>(most, 2));
    shape[static_cast<size_t>(dims[i])] += pads[i] + pads[i + dims.size()];
    if (has_axes && random.chance(0.4)) dims[i] -= x.rank();
  }
  std::vector<OnnxAttribute> attributes;
  if (mode != "constant" || random.chance(0.4)) attributes.emplace_back("mode", mode.c_str());
  const Numbers numbers = either(x.numbers, {8, x.is_float() ? 0.125 : 1});
  if (!writer.is_at_least(11)) {
    attributes.emplace_back("pads", pads);
    if (random.chance(0.5)) attributes.emplace_back("value", random.of({0.0F, 1.0F, -2.5F}));
    writer.node(op, {x}, attributes, {x.dtype, shape, numbers});
    return;
  }
  std::vector<GeneratedValue> inputs = {x, writer.list(pads), GraphWriter::absent(), GraphWriter::absent()};
  if (random.chance(0.5))
    inputs[2] = writer.scalar(random.between(0, x.dtype == DType::kBool ? 1 : 3), x.dtype);
  if (has_axes) inputs[3] = writer.list(dims);
  writer.node(op, inputs, attributes, {x.dtype, shape, numbers});
}

void write_expand(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = writer.operand(anything(writer));
  std::vector<int64_t> wanted = x.shape;
  for (int64_t& size : wanted) {
    if (size == 1) size = random.between(random.chance(0.1) ? 0 : 1, 3);
    if (random.chance(0.3)) size = 1;
  }
  if (random.chance(0.3)) wanted.insert(wanted.begin(), random.between(1, 3));
  if (random.chance(0.2) && !wanted.empty()) wanted.erase(wanted.begin());
  writer.node(op, {x, writer.list(wanted)}, {}, {x.dtype, broadcast_shape(x.shape, wanted), x.numbers});
}

void write_tile(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x = writer.operand(anything(writer, 1));
  std::vector<int64_t> repeats;
  Shape shape = x.shape;
  for (int64_t& size : shape) {
    repeats.push_back(writer.random.between(writer.random.chance(0.1) ? 0 : 1, 3));
    size *= repeats.back();
  }
  writer.node(op, {x, writer.list(repeats)}, {}, {x.dtype, shape, x.numbers});
}

void write_shape(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = writer.operand(anything(writer));
  std::vector<OnnxAttribute> attributes;
  int64_t start = 0;
  int64_t end = x.rank();
  const auto clamped = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + x.rank() : at, 0, x.rank());
  };
  if (writer.is_at_least(15) && random.chance(0.4)) {
    attributes.emplace_back("start", start = random.between(-x.rank() - 1, x.rank() + 1));
    start = clamped(start);
  }
  if (writer.is_at_least(15) && random.chance(0.4)) {
    attributes.emplace_back("end", end = random.between(-x.rank() - 1, x.rank() + 1));
    end = clamped(end);
  }
  writer.node(op, {x}, attributes, {DType::kInt64, {std::max<int64_t>(end - start, 0)}, {128, 1}});
}

void write_size(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x = writer.operand(anything(writer));
  writer.node(op, {x}, {}, {DType::kInt64, {}, {4096, 1}});
}

void write_constant_of_shape(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const Shape shape = writer.shape(0, 3);
  const DType dtype = random.of({writer.real, DType::kInt64, DType::kInt32, DType::kBool, DType::kUInt8});
  const GeneratedValue list = writer.list(shape);
  if (random.chance(0.2)) {
    writer.node(op, {list}, {}, {DType::kFloat32, shape, {1, 1}});
    return;
  }
  const bool is_large = dtype == DType::kInt64 && random.chance(0.3);
  Tensor value(dtype, {1});
  if (dtype == DType::kInt64)
    value.values<int64_t>()[0] =
        is_large ? random.of<int64_t>({std::numeric_limits<int64_t>::max(), (int64_t{1} << 53) + 1}) : 3;
  if (is_floating_point(dtype))
    value = to_dtype(Tensor::from({1}, std::vector<float>{random.of({0.5F, -1.0F, 2.0F})}), dtype);
  if (dtype == DType::kInt32) value.values<int32_t>()[0] = -7;
  onnx::TensorProto proto = tensor_proto("", value, random.chance(0.5));
  writer.node(op, {list}, {{"value", proto}},
              {dtype, shape, {8, is_floating_point(dtype) ? 0.125 : 1, 0, false, is_large}});
}

void write_range(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const int64_t start = random.between(-5, 5);
  const int64_t step = random.of<int64_t>({1, 2, -1, -3, 3});
  const int64_t limit = start + step * random.between(-1, 4) + (random.chance(0.3) ? (step > 0 ? 1 : -1) : 0);
  const bool is_float = random.chance(0.3);
  const DType dtype = is_float ? writer.real : random.of({DType::kInt64, DType::kInt32});
  const int64_t size = std::max<int64_t>(0, (limit - start + step - (step > 0 ? 1 : -1)) / step);
  writer.node(op, {writer.scalar(start, dtype), writer.scalar(limit, dtype), writer.scalar(step, dtype)}, {},
              {dtype, {size}, {32, 1}});
}

void write_identity(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x = writer.operand(anything(writer));
  writer.node(op, {x}, {}, {x.dtype, x.shape, x.numbers});
}

void write_dropout(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = writer.operand({.dtypes = {writer.real}, .may_be_wild = true});
  std::vector<OnnxAttribute> attributes;
  std::vector<GeneratedValue> inputs = {x};
  if (!writer.is_at_least(12) && random.chance(0.5)) attributes.emplace_back("ratio", 0.25F);
  if (writer.is_at_least(12) && random.chance(0.5))
    inputs.push_back(writer.constant(Tensor::from({}, std::vector<float>{0.75F}), {1, 0.25}));
  std::vector<Result> results = {{x.dtype, x.shape, x.numbers}};
  if (writer.is_at_least(12) && random.chance(0.5)) results.push_back({DType::kBool, x.shape});
  writer.node(op, inputs, attributes, results);
}

void write_blocks(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const int64_t block = random.between(1, 3);
  const bool to_space = op == "DepthToSpace";
  Shape shape = {random.between(1, 2), random.between(1, 2) * (to_space ? block * block : 1),
                 random.between(1, 2) * (to_space ? 1 : block),
                 random.between(1, 3) * (to_space ? 1 : block)};
  const GeneratedValue x = writer.operand({.dtypes = {writer.real}, .shape = shape, .may_be_wild = true});
  std::vector<OnnxAttribute> attributes = {{"blocksize", block}};
  if (to_space && writer.is_at_least(11) && random.chance(0.6))
    attributes.emplace_back("mode", random.of({"DCR", "CRD"}));
  const int64_t squared = block * block;
  if (to_space) shape = {shape[0], shape[1] / squared, shape[2] * block, shape[3] * block};
  if (!to_space) shape = {shape[0], shape[1] * squared, shape[2] / block, shape[3] / block};
  writer.node(op, {x}, attributes, {x.dtype, shape, x.numbers});
}

}  // namespace

std::vector<OperatorGenerator> shape_generators() {
  return {{"Reshape", 7, write_reshape},
          {"Flatten", 7, write_flatten},
          {"Transpose", 7, write_transpose},
          {"Concat", 7, write_concat},
          {"Split", 7, write_split},
          {"Slice", 7, write_slice},
          {"Slice", 7, write_slice},
          {"Squeeze", 7, write_squeeze},
          {"Unsqueeze", 7, write_unsqueeze},
          {"Pad", 7, write_pad},
          {"Expand", 8, write_expand},
          {"Tile", 7, write_tile},
          {"Shape", 7, write_shape},
          {"Size", 7, write_size},
          {"ConstantOfShape", 9, write_constant_of_shape},
          {"Range", 11, write_range},
          {"Identity", 7, write_identity},
          {"Dropout", 7, write_dropout},
          {"DepthToSpace", 7, write_blocks},
          {"SpaceToDepth", 7, write_blocks}};
}

}  // namespace detent
