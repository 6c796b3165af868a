#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "detent/cli/format_display.h"
#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/formats/format.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/groups/learned_scale.h"
#include "detent/formats/measure/distortion.h"
#include "detent/formats/packing/encode.h"
#include "detent/formats/quant_spec.h"
#include "detent/formats/verbs.h"
#include "detent/python/arrays.h"
#include "detent/python/bindings.h"
#include "detent/python/work.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace detent::python {
namespace {

/// A number format with what goes with it, as Python has it.
struct NumberFormatSpec {
  QuantSpec spec;

  bool operator==(const NumberFormatSpec&) const = default;
};

QuantSpec spec_of(const std::string& text, const nb::kwargs& given) {
  const Table keys = table_of(given, "Format");
  if (keys.empty()) return parse_quant_spec_text(text);
  if (text.find(':') == std::string::npos) return parse_quant_spec(text, keys, "Format(\"" + text + "\")");
  const QuantSpec spec = parse_quant_spec_text(text);
  Table all = quant_spec_keys(spec);
  for (const auto& [key, value] : keys) all[key] = value;
  return parse_quant_spec(format_name(spec.format), all, "Format(\"" + text + "\")");
}

/// Kernels take float32, float16 and bfloat16 as they are.
Tensor values_of(nb::handle array) {
  Tensor tensor = tensor_of(array, "x");
  if (!is_floating_point(tensor.dtype()))
    return tensor_of(array, DType::kFloat32, "x");  // says what is wrong
  return tensor.dtype() == DType::kFloat64 ? to_float32(tensor) : tensor;
}

nb::object fake_quantized(const NumberFormatSpec& format, nb::handle x, nb::handle out, uint64_t seed) {
  const Tensor input = values_of(x);
  if (out.is_none()) {
    return array_of(without_lock([&] { return fake_quantize(format.spec, input, seed); }));
  }
  Tensor output = writable_tensor_of(out, "out");
  if (output.dtype() != DType::kFloat32 || output.shape() != input.shape())
    throw nb::type_error(("out: got " + std::string(dtype_name(output.dtype())) + " " +
                          shape_text(output.shape()) + ", expected float32 " + shape_text(input.shape()))
                             .c_str());
  const auto read = std::as_const(input).bytes();
  const auto written = std::as_const(output).bytes();
  const bool is_apart =
      read.data() + read.size() <= written.data() || written.data() + written.size() <= read.data();
  if (!is_apart && read.data() != written.data())
    throw nb::value_error("out: shares a part of its memory with x, expected all or nothing of it");
  without_lock([&] {
    fake_quantize(format.spec, input, output, seed);
    return true;
  });
  return nb::borrow(out);
}

nb::dict encoded(const NumberFormatSpec& format, nb::handle x, const std::string& packing, uint64_t seed) {
  const Tensor input = to_float32(values_of(x));
  Packing way{};
  field_detail::from_value(Value(packing), way, {}, "packing");
  const Encoded parts = without_lock([&] { return encode(format.spec, input, way, seed); });
  nb::dict streams;
  for (const auto& [name, data] : parts.streams) streams[nb::cast(name)] = array_of(data.clone());
  return streams;
}

nb::object decoded(const NumberFormatSpec& format, const std::vector<int64_t>& shape, nb::dict streams,
                   const std::string& packing) {
  Encoded parts{format.spec, shape, {}, {}};
  field_detail::from_value(Value(packing), parts.packing, {}, "packing");
  for (const auto& [name, data] : streams) {
    const auto key = nb::cast<std::string>(name);
    parts.streams.push_back({key, tensor_of(data, key)});
  }
  return array_of(without_lock([&] { return decode(parts); }));
}

std::vector<float> format_values(const NumberFormatSpec& format) {
  return without_lock([&] {
    try {
      return representable_values(format.spec.format);
    } catch (const Error&) {
      const bool has_scale =
          std::visit([]<class F>(const F&) { return ScaledFormat<F>; }, format.spec.format);
      if (!has_scale) throw;
      return representable_values(code_spec(format.spec).format);
    }
  });
}

nb::dict distortion(const NumberFormatSpec& format, nb::handle x, uint64_t seed) {
  const Tensor input = to_float32(values_of(x));
  const Distortion measured = without_lock([&] { return measure_distortion(format.spec, input, seed); });
  nb::dict result;
  result["count"] = measured.count();
  result["sqnr_db"] = measured.sqnr_db();
  result["mean_squared_error"] = measured.mean_squared_error();
  result["max_error"] = measured.max_error();
  result["cosine"] = measured.cosine();
  result["zero_share"] = measured.zero_share();
  result["saturated_share"] =
      object_of(measured.saturated_share() ? Value(*measured.saturated_share()) : Value());
  result["distinct_values"] = measured.distinct_values().size();
  return result;
}

/// Drawing of `detent formats show --svg`.
std::string drawing(const NumberFormatSpec& format) {
  constexpr size_t kMostTicks = 4096;
  return without_lock([&] {
    return format_drawing(quant_spec_text(format.spec), values_within_one(format.spec, kMostTicks),
                          format_errors(format.spec, drawn_distributions()));
  });
}

/// Facts that a trained scale needs about a tensor of this shape.
nb::dict learned_scale(const NumberFormatSpec& format, const Shape& shape) {
  const QuantSpec& spec = format.spec;
  const bool has_scale = std::visit([]<class F>(const F&) { return ScaledFormat<F>; }, spec.format);
  if (!has_scale || is_sum_of_signs(spec.format))
    fail("{}: it has not one scale for each group, expected a format of codes times a scale, such as int4",
         format_name(spec.format));
  nb::dict dict;
  dict["codes"] = quant_spec_text(code_spec(spec));
  dict["shape"] = scale_shape(spec, shape);
  dict["largest_code"] = largest_code(spec);
  dict["slope_is_code"] = has_threshold(spec.format) || sign_codes(spec.format).has_value();
  return dict;
}

/// By element, the number of its scale.
nb::object groups_of(const NumberFormatSpec& format, const Shape& shape) {
  const Grouping grouping = make_grouping(format.spec, shape);
  Tensor groups(DType::kInt64, shape);
  const auto values = groups.values<int64_t>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = grouping.group_of(static_cast<int64_t>(i));
  return array_of(groups);
}

}  // namespace

void bind_formats(nb::module_& module) {
  nb::class_<NumberFormatSpec>(module, "FormatSpec", "A number format, and what shares its parameters.")
      .def(
          "__init__",
          [](NumberFormatSpec* self, const std::string& text, const nb::kwargs& keys) {
            new (self) NumberFormatSpec{spec_of(text, keys)};
          },
          "text"_a, "keys"_a, nb::sig("def __init__(self, text: str, **keys: typing.Any) -> None"))
      .def("text", [](const NumberFormatSpec& self) { return quant_spec_text(self.spec); })
      .def("name", [](const NumberFormatSpec& self) { return std::string(format_name(self.spec.format)); })
      .def(
          "keys", [](const NumberFormatSpec& self) { return object_of(quant_spec_keys(self.spec)); },
          nb::sig("def keys(self) -> dict[str, typing.Any]"))
      .def("bits", [](const NumberFormatSpec& self) { return bits_per_value(self.spec.format); })
      .def(
          "storage_bits",
          [](const NumberFormatSpec& self, const std::vector<int64_t>& shape) {
            return storage_bits(self.spec, shape);
          },
          "shape"_a)
      .def("values", format_values)
      .def("fake_quantize", fake_quantized, "x"_a.none(), "out"_a.none(), "seed"_a,
           nb::sig("def fake_quantize(self, x: typing.Any, out: typing.Any, seed: int) -> typing.Any"))
      .def(
          "mask",
          [](const NumberFormatSpec& self, nb::handle x) {
            const Tensor input = to_float32(values_of(x));
            return array_of(without_lock([&] { return clipped_ste_mask(self.spec, input); }));
          },
          "x"_a.none(), nb::sig("def mask(self, x: typing.Any) -> typing.Any"))
      .def("learned_scale", learned_scale, "shape"_a,
           nb::sig("def learned_scale(self, shape: list[int]) -> dict[str, typing.Any]"))
      .def("groups_of", groups_of, "shape"_a, nb::sig("def groups_of(self, shape: list[int]) -> typing.Any"))
      .def(
          "initial_scale",
          [](const NumberFormatSpec& self, nb::handle x) {
            const Tensor values = to_float32(values_of(x));
            return array_of(without_lock([&] { return initial_scale(self.spec, values, "scale"); }));
          },
          "x"_a.none(), nb::sig("def initial_scale(self, x: typing.Any) -> typing.Any"))
      .def("encode", encoded, "x"_a.none(), "packing"_a, "seed"_a,
           nb::sig("def encode(self, x: typing.Any, packing: str, seed: int) -> dict[str, typing.Any]"))
      .def("decode", decoded, "shape"_a, "streams"_a, "packing"_a,
           nb::sig("def decode(self, shape: collections.abc.Sequence[int], streams: dict[str, typing.Any], "
                   "packing: str) -> typing.Any"))
      .def("drawing", drawing)
      .def("error", distortion, "x"_a.none(), "seed"_a,
           nb::sig("def error(self, x: typing.Any, seed: int) -> dict[str, typing.Any]"));
  module.def("format_names", [] { return format_names(); });
}

}  // namespace detent::python
