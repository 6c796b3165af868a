#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/torch_half.h"
#include "detent/core/error.h"

namespace detent {
namespace {

/// "NAME=rest", of which the name may hold "=" where the rest does not.
std::pair<std::string, std::string> named(const std::string& option, const std::string& text) {
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    throw UsageError(fmt::format("{}: got \"{}\", expected NAME={}", option, text,
                                 option == "--shape" ? "1,3,224,224" : "FILE"));
  return {text.substr(0, at), text.substr(at + 1)};
}

Engine parse_engine(const std::string& text) {
  const auto known = enum_names(Engine());
  const std::vector<std::string> names(known.begin(), known.end());
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) throw UsageError("--engine: " + unknown_name_message("engine", text, names));
  return static_cast<Engine>(found - names.begin());
}

Shape parse_shape(const std::string& text) {
  Shape shape;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    int64_t size = 0;
    const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, size);
    if (error != std::errc() || stop != text.data() + end || size < 1)
      throw UsageError(fmt::format("--shape: got \"{}\", expected numbers above 0: 1,3,224,224", text));
    shape.push_back(size);
    begin = end + 1;
  }
  return shape;
}

}  // namespace

int run_run(const std::vector<std::string>& args) {
  CLI::App app(
      "Run a network once and show its outputs, and any value inside of it. Inputs that are not given are "
      "zeros. Exits with 1 where a comparison finds more than rtol and atol allow.",
      "detent run");
  TorchCommand command{.name = "run", .options = {}, .passes = {}, .config_file = {}, .software_dir = {}};
  ModelRun& run = command.model_run;
  std::vector<std::string> inputs;
  std::vector<std::string> shapes;
  std::vector<std::string> compare;
  std::string engine;
  bool in_integers = false;
  app.add_option("model", run.model, "an ONNX model or a graph (.mz)")->required()->option_text(" ");
  app.add_option("--input", inputs, "NAME=FILE: what an input holds, .npy or a tensor of ONNX (.pb)");
  app.add_option("--shape", shapes, "NAME=1,3,224,224: shape of an input whose sizes the model leaves open");
  app.add_option("--output-dir", run.output_dir, "folder for NAME.npy of each output and value");
  app.add_option("--compare", compare, "NAME=FILE: what an output or value should be, likewise");
  app.add_option("--rtol", run.rtol, "comparison: relative tolerance")->capture_default_str();
  app.add_option("--atol", run.atol, "comparison: absolute tolerance")->capture_default_str();
  app.add_option("--value", run.values, "NAME of a value inside: a node, or what the ONNX model calls it");
  app.add_flag("--before-quantization", run.before_quantization,
               "these values as nodes compute them, before they are quantized");
  app.add_flag("--as-integers", run.as_integers, "values that have quantized integers as those");
  app.add_option("--engine", engine,
                 "simulation, reference or fast; default: fast where the network is quantized for integers")
      ->option_text(" ");
  app.add_flag("--integers", in_integers, "the same as --engine fast, and how the nodes are computed");
  app.add_option("--num-threads", command.options.num_threads, "threads; NA: one a processor");
  app.add_option("--log-level", command.options.log_level, "debug, info, warning, error or critical");
  app.add_flag("--json", command.options.json, "print the results as JSON instead of text (docs/results.md)");
  if (!parse_arguments(app, args)) return 0;
  if (!engine.empty()) run.engine = parse_engine(engine);
  if (in_integers) run.engine = Engine::kIntegers;
  for (const std::string& text : inputs) run.inputs.push_back(named("--input", text));
  for (const std::string& text : compare) run.compare.push_back(named("--compare", text));
  for (const std::string& text : shapes) {
    const auto [name, sizes] = named("--shape", text);
    run.shapes[name] = parse_shape(sizes);
  }
  run_torch_command(command);
  return 0;
}

}  // namespace detent
