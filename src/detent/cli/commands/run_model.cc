#include <algorithm>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/option_fields.h"
#include "detent/cli/read_network.h"
#include "detent/cli/torch_command.h"
#include "detent/core/error.h"

namespace detent {
namespace {

Engine parse_engine(const std::string& text) {
  const auto known = enum_names(Engine());
  const std::vector<std::string> names(known.begin(), known.end());
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) throw UsageError("--engine: " + unknown_name_message("engine", text, names));
  return static_cast<Engine>(found - names.begin());
}

}  // namespace

int run_run(const std::vector<std::string>& args) {
  CLI::App app(
      "Run a network once and show its outputs, and any value inside of it. Inputs that are not given are "
      "zeros, but for attention_mask: ones. Exits with 1 where a comparison finds more than rtol and atol "
      "allow.",
      "detent run");
  TorchCommand command{.name = "run", .options = {}, .passes = {}, .config_file = {}, .software_dir = {}};
  ModelRun& run = command.model_run;
  std::vector<std::string> inputs;
  std::vector<std::string> shapes;
  std::vector<std::string> compare;
  std::string engine;
  bool in_integers = false;
  app.add_option("model", run.model, "an ONNX model or a graph (.mz)")->required()->option_text(" ");
  app.add_option("--input", inputs,
                 "NAME=FILE: value of an input, .npy or ONNX tensor (.pb); or an .npz file of several");
  app.add_option("--shape", shapes, "NAME=1,3,224,224: shape of an input with open sizes");
  app.add_option("--output-dir", run.output_dir, "folder for outputs and values as NAME.npy");
  add_overwrite_option(app, run.overwrite);
  app.add_option("--compare", compare, "NAME=FILE: expected output or value");
  app.add_option("--rtol", run.rtol, "comparison: relative tolerance")->capture_default_str();
  app.add_option("--atol", run.atol, "comparison: absolute tolerance")->capture_default_str();
  app.add_option("--value", run.values, "NAME of an inner value: a node, or its name in the ONNX model");
  app.add_flag("--before-quantization", run.before_quantization, "show these values before rounding");
  app.add_flag("--as-integers", run.as_integers, "show quantized values as integers");
  app.add_option("--engine", engine,
                 "simulation, reference or fast; default: fast where the network is quantized for integers")
      ->option_text(" ");
  app.add_flag("--integers", in_integers, "--engine fast, and list how nodes compute");
  const OptionField& threads = option_field("num_threads");
  std::string thread_text;
  app.add_option(threads.flag, thread_text, threads.help)->option_text("VALUE");
  app.add_option("--log-level", command.options.log_level, "debug, info, warning, error or critical");
  app.add_flag("--json", command.options.json, "print the results as JSON (docs/results.md)");
  if (!parse_arguments(app, args)) return 0;
  if (app.count(threads.flag) > 0) set_flag(command.options, threads.name, threads.parse(thread_text));
  if (!engine.empty()) run.engine = parse_engine(engine);
  if (in_integers) run.engine = Engine::kIntegers;
  for (const std::string& text : compare) run.compare.push_back(named_value("--compare", "FILE", text));
  run.given = given_inputs(inputs, shapes);
  if (run.output_dir) say_new_folders(*run.output_dir);
  run_command(command);
  return 0;
}

}  // namespace detent
