#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "detent/cli/language_model.h"
#include "detent/cli/network/loaded_network.h"
#include "detent/cli/read_network.h"
#include "detent/cli/results.h"
#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/core/fields.h"
#include "detent/graph/loop.h"
#include "detent/graph/operators.h"
#include "detent/graph_files/graph_file.h"
#include "detent/onnx/export_onnx.h"
#include "detent/python/arrays.h"
#include "detent/python/bindings.h"
#include "detent/python/inputs.h"
#include "detent/python/network.h"
#include "detent/python/quantizing.h"
#include "detent/python/work.h"
#include "detent/search/options.h"
#include "detent/training/options.h"
#include "detent/workflows/network_report.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace detent::python {
namespace {

namespace fs = std::filesystem;

nb::dict metrics_dict(const Metrics& metrics) {
  Table row = accuracy_row("", metrics);
  row.erase("network");
  return object_of(row);
}

nb::dict sizes_dict(const StorageBits& bits) { return object_of(size_table(bits)); }

nb::object metrics_or_none(const std::optional<Metrics>& metrics) {
  return metrics ? nb::object(metrics_dict(*metrics)) : nb::none();
}

nb::dict outcome_dict(const QuantizeOutcome& outcome) {
  nb::dict dict;
  dict["network"] = nb::cast(outcome.network);
  dict["accuracy_before"] = metrics_or_none(outcome.before);
  dict["accuracy_after"] = metrics_or_none(outcome.after);
  dict["sizes_before"] = sizes_dict(outcome.bits_before);
  dict["sizes_after"] = sizes_dict(outcome.bits_after);
  dict["integer_execution"] = outcome.integer_execution;
  if (outcome.analysis) {
    const auto& [errors, advice] = *outcome.analysis;
    dict["output_sqnr_db"] = errors.outputs.empty() ? nb::none() : nb::cast(errors.output_sqnr_db);
    dict["layers"] = object_of(layerwise_errors_value(errors));
    dict["advice"] = advice.tried.empty() ? "" : advice.text();
    dict["tried"] = object_of(advice.to_value());
  }
  return dict;
}

nb::dict quantized(const Network& network, Samples* calibration, Samples* test, const nb::dict& wish,
                   int64_t seed, int64_t batch_size, int64_t num_workers, bool analyzes,
                   const std::string& report, bool overwrite) {
  if (!report.empty()) claim_report({.report = report, .overwrite = overwrite});
  QuantizeRequest request{{}, seed, batch_size, num_workers, analyzes, report};
  request.wish.options = table_of(wish["options"], "quantize");
  if (!wish["prepare"].is_none()) request.wish.prepare = nb::cast<std::vector<std::string>>(wish["prepare"]);
  if (!wish["improve"].is_none()) request.wish.improve = nb::cast<std::vector<std::string>>(wish["improve"]);
  if (!wish["output"].is_none()) request.wish.output = nb::cast<std::string>(wish["output"]);
  request.cache_format = nb::cast<std::string>(wish["cache_format"]);
  if (calibration == nullptr && needs_samples(request.wish)) {
    throw nb::type_error(
        "calibration: got NoneType, expected samples, which ranges of activations and passes for better "
        "weights "
        "follow from; activations=\"float32\" without improve needs none");
  }
  const QuantizeOutcome outcome = without_lock([&] {
    return quantize(network, calibration == nullptr ? nullptr : &calibration->dataset(),
                    test == nullptr ? nullptr : &test->labelled(), request);
  });
  return outcome_dict(outcome);
}

std::vector<std::string> save(const Network& network, const std::string& path, bool packed, bool overwrite) {
  check_output(path, overwrite);
  if (!path.ends_with(".mz"))
    throw DetailedError(path + ": expected a name that ends in .mz", {.file = path});
  return without_lock([&] {
    write_language_files(language_files(network.source(), network.graph()), fs::absolute(path).parent_path(),
                         overwrite);
    if (packed) return write_packed_graph(path, network.graph());
    write_graph(path, network.graph());
    return std::vector<std::string>();
  });
}

void export_to(const Network& network, const std::string& path, const std::string& style,
               std::optional<int64_t> opset, bool unsigned_weights, bool overwrite) {
  check_output(path, overwrite);
  if (!path.ends_with(".onnx"))
    throw DetailedError(path + ": expected a name that ends in .onnx", {.file = path});
  OnnxExportOptions options{.opset = opset, .unsigned_weights = unsigned_weights};
  field_detail::from_value(Value(style), options.style, {}, "style");
  without_lock([&] {
    export_onnx(network.graph(), path, options);
    return true;
  });
}

/// Description of each node for users.
nb::list nodes_of(const Network& network) {
  const ValueTypes types = infer_shapes(network.graph());
  nb::list nodes;
  for (const Node& node : network.graph().nodes()) {
    if (node.mase_type == MaseType::kOutput) continue;
    nb::dict dict;
    dict["name"] = node.name;
    dict["op"] = node.op;
    nb::list inputs;
    for (const NodeInput& input : node.inputs)
      if (!input.is_constant()) inputs.append(value_name(input));
    dict["inputs"] = inputs;
    const auto type = types.find(value_name(node.name));
    dict["shape"] = type == types.end() ? nb::none() : nb::cast(type->second.shape);
    dict["dtype"] = type == types.end() ? nb::none() : nb::cast(std::string(dtype_name(type->second.dtype)));
    nb::dict formats;
    for (const auto& [operand, quantizer] : node.quantization) {
      const QuantSpec* spec = node.find_quantization(operand);
      formats[nb::cast(operand)] = quant_spec_text(*spec);
    }
    dict["formats"] = formats;
    nb::dict shapes;
    for (const auto& [name, parameter] : node.all_parameters())
      shapes[nb::cast(name)] = nb::cast(parameter->tensor.shape());
    dict["parameters"] = shapes;
    dict["attributes"] = object_of(node.attributes);
    nodes.append(dict);
  }
  return nodes;
}

nb::object parameter_of(const Network& network, const std::string& node, const std::string& name) {
  for (const auto& [key, parameter] : network.graph().node(node).all_parameters())
    if (key == name) return array_of(parameter->tensor.clone());
  throw DetailedError(fmt::format("node \"{}\" has no parameter \"{}\"", node, name),
                      {.node = node, .key = name});
}

/// `source`: what messages call the network, where that is not its file.
std::shared_ptr<const Network> loaded(const std::string& path, const nb::dict& shapes,
                                      const std::string& model, std::optional<int64_t> classes,
                                      const std::string& source) {
  ParametersOf network{.model = model, .class_count = classes};
  for (const auto& [name, shape] : shapes)
    network.shapes[nb::cast<std::string>(name)] = nb::cast<std::vector<int64_t>>(shape);
  return without_lock([&] {
    return about_file(path, [&] {
      return std::make_shared<const Network>(read_network_or_parameters(path, network, "model="),
                                             source.empty() ? path : source);
    });
  });
}

}  // namespace

void check_output(const std::string& path, bool overwrite) {
  if (fs::exists(path) && !overwrite)
    throw DetailedError(path + " exists: choose another name, or overwrite=True", {.file = path});
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::exists(folder))
    throw DetailedError(fmt::format("cannot write {}: the folder {} does not exist", path, folder.string()),
                        {.file = path});
}

void bind_networks(nb::module_& module) {
  nb::class_<Samples>(module, "Samples", "Samples in bounded memory.")
      .def(nb::init<const Network&, const std::string&>(), "network"_a, "source"_a)
      .def("add", &Samples::add, "inputs"_a, "labels"_a.none(),
           nb::sig("def add(self, inputs: list[typing.Any], labels: typing.Any) -> None"))
      .def("size", &Samples::size);
  nb::class_<Network>(module, "NetworkGraph", "A network as Detent has it.")
      .def("name", [](const Network& self) { return self.graph().name(); })
      .def("source", &Network::source)
      .def(
          "inputs",
          [](const Network& self) {
            nb::list list;
            for (const NamedType& input : self.inputs())
              list.append(nb::make_tuple(input.name, input.dtype, input.shape));
            return list;
          },
          nb::sig("def inputs(self) -> list[tuple[str, str, list[str]]]"))
      .def("output_names", &Network::output_names)
      .def("parameter_count", [](const Network& self) { return self.graph().parameter_count(); })
      .def("is_quantized", [](const Network& self) { return holds_quantizers(self.graph()); })
      .def("nodes", nodes_of, nb::sig("def nodes(self) -> list[dict[str, typing.Any]]"))
      .def("parameter", parameter_of, "node"_a, "name"_a,
           nb::sig("def parameter(self, node: str, name: str) -> typing.Any"))
      .def("quantize", quantized, "calibration"_a.none(), "test"_a.none(), "wish"_a, "seed"_a, "batch_size"_a,
           "num_workers"_a, "analyzes"_a, "report"_a, "overwrite"_a,
           nb::sig("def quantize(self, calibration: Samples | None, test: Samples | None, wish: dict[str, "
                   "typing.Any], seed: int, batch_size: int, num_workers: int, analyzes: bool, report: str, "
                   "overwrite: bool) -> dict[str, "
                   "typing.Any]"))
      .def(
          "test",
          [](const Network& self, Samples& samples, int64_t batch_size, int64_t num_workers) {
            return metrics_dict(
                without_lock([&] { return measure(self, samples.labelled(), batch_size, num_workers); }));
          },
          "samples"_a, "batch_size"_a, "num_workers"_a,
          nb::sig(
              "def test(self, samples: Samples, batch_size: int, num_workers: int) -> dict[str, typing.Any]"))
      .def("save", save, "path"_a, "packed"_a, "overwrite"_a)
      .def("export", export_to, "path"_a, "style"_a, "opset"_a.none(), "unsigned_weights"_a, "overwrite"_a)
      .def(
          "sizes", [](const Network& self) { return sizes_dict(storage_bits(self.graph())); },
          nb::sig("def sizes(self) -> dict[str, typing.Any]"));
  module.def("load", loaded, "path"_a, "shapes"_a, "model"_a, "classes"_a.none(), "source"_a,
             nb::sig("def load(path: str, shapes: dict[str, list[int]], model: str, classes: int | None, "
                     "source: str) -> "
                     "NetworkGraph"));
  module.def(
      "quantize_options", [] { return descriptions(quantize_options()); },
      nb::sig("def quantize_options() -> list[dict[str, str]]"));
  module.def(
      "search_options", [] { return descriptions(describe_fields<SearchOptions>()); },
      nb::sig("def search_options() -> list[dict[str, str]]"));
  module.def("default_batch_size", [] { return TrainingOptions().batch_size; });
  module.def("default_prepare", [] { return QuantizeWish().prepare; });
}

}  // namespace detent::python
