#include <fmt/format.h>

#include <algorithm>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/network/loaded_network.h"
#include "detent/cli/read_network.h"
#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/onnx/export_onnx.h"

namespace detent {
namespace {

OnnxStyle style_of(const std::string& name) {
  const auto names = enum_names(OnnxStyle());
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<OnnxStyle>(found - names.begin());
  const std::vector<std::string> known(names.begin(), names.end());
  throw UsageError("--style: " + unknown_name_message("value", name, known));
}

size_t quantizer_count(const Graph& graph) {
  size_t count = 0;
  for (const Node& node : graph.nodes())
    count += node.quantization.size() + (node.body == nullptr ? 0 : quantizer_count(*node.body));
  return count;
}

struct ExportArguments {
  std::string model;
  std::string output;
  std::string style;
  OnnxExportOptions options;
  std::vector<std::string> shapes;
  ParametersOf parameters;  // of a checkpoint
  bool external_data = false;
  bool overwrite = false;
};

void add_arguments(CLI::App& app, ExportArguments& arguments) {
  app.add_option("model", arguments.model,
                 "a graph (.mz), an ONNX model, or a checkpoint of a built-in model")
      ->required()
      ->option_text(" ");
  app.add_option("output,-o,--output", arguments.output, "file to write: .onnx")
      ->required()
      ->option_text(" ");
  app.add_option(
         "--style", arguments.style,
         "how formats are written: float (none), qdq (QuantizeLinear and DequantizeLinear), qoperator "
         "(QLinearConv and its family), matmulnbits (as qdq, but MatMulNBits and GatherBlockQuantized "
         "of ONNX Runtime for weights with a scale a group) or qonnx (Quant, BipolarQuant); default: "
         "qdq where there are formats, else float")
      ->option_text("NAME");
  app.add_option("--opset", arguments.options.opset,
                 "version of the operators, 13 to 25; default: 17, or what operators and formats need: 19 "
                 "fp8, 21 integers of "
                 "more than 8 bits and scales of groups, 23 fp4 and nvfp4, 24 mx")
      ->option_text("N");
  app.add_option("--shape", arguments.shapes,
                 "NAME=1,3,224,224: shape of an input with open sizes, fixed in the written model");
  app.add_option("--model", arguments.parameters.model,
                 "of a checkpoint: the built-in model, one of `detent list models`")
      ->option_text("NAME");
  app.add_option("--classes", arguments.parameters.class_count,
                 "of a checkpoint: classes, where the model has others")
      ->option_text("N");
  app.add_flag("--external-data", arguments.external_data,
               "put weights into a file beside the model, OUTPUT.<digest>.data (always beyond 1.9 GB)");
  app.add_flag("--unsigned-weights", arguments.options.unsigned_weights,
               "write 8-bit weights as uint8 with zero point 128, for ONNX Runtime on x86 without VNNI, "
               "whose int8 sums saturate");
  add_overwrite_option(app, arguments.overwrite);
}

}  // namespace

int run_export(const std::vector<std::string>& args) {
  CLI::App app("Write a network as an ONNX model, which other programs run with the same numbers.",
               "detent export");
  ExportArguments arguments;
  add_arguments(app, arguments);
  if (!parse_arguments(app, args)) return 0;
  auto& [model, output, style, options, shapes, parameters, external_data, overwrite] = arguments;
  if (external_data) options.most_bytes_within = 0;
  if (!style.empty()) options.style = style_of(style);
  if (!output.ends_with(".onnx"))
    throw UsageError(fmt::format("{}: expected a name that ends in .onnx", output));
  claim_output(output, "detent export", overwrite);
  if (parameters.class_count && parameters.model.empty())
    throw UsageError(
        fmt::format("--classes: got {} without --model, which it is for", *parameters.class_count));
  parameters.shapes = named_shapes(shapes);
  const Graph graph = read_network_or_parameters(model, parameters, "--model");
  if (style.empty() && quantizer_count(graph) > 0) options.style = OnnxStyle::kQdq;
  export_onnx(graph, output, options);
  const bool approximates =
      has_integers(options.style) && graph.requantization() == Requantization::kFixedPoint;
  print(fmt::format("{}: {} nodes and {} quantized operands, style {}\n{}", output, graph.nodes().size(),
                    quantizer_count(graph), enum_name(options.style),
                    approximates
                        ? "sums are requantized in fixed point here, in float there: integers may differ "
                          "by 1\n"
                        : ""));
  return 0;
}

}  // namespace detent
