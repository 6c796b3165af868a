#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/read_network.h"
#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/core/text.h"
#include "detent/datasets/dataset.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/files/output_folder.h"
#include "detent/hardware/circuit.h"
#include "detent/hardware/design.h"
#include "detent/hardware/verilog.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

struct EmitOptions {
  std::string model;
  std::string output;
  std::string top;
  std::optional<int64_t> latency;
  std::vector<std::string> inputs;
  std::string dataset;
  std::string data_dir;
  std::optional<int64_t> vectors;
  int64_t seed = 0;
  std::string dont_cares = "unreachable";
  std::vector<std::string> simulators;
  bool synthesizes = false;
  bool overwrite = false;
  ResultOptions results;
};

template <class Enum>
Enum parse_choice(const std::string& option, const std::string& text) {
  const auto known = enum_names(Enum());
  const std::vector<std::string> names(known.begin(), known.end());
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) throw UsageError(option + ": " + unknown_name_message("value", text, names));
  return static_cast<Enum>(found - names.begin());
}

void add_emit_options(CLI::App& app, EmitOptions& options) {
  app.add_option("model", options.model, "a graph (.mz), or an ONNX model")->required()->option_text(" ");
  app.add_option("-o,--output", options.output, "folder for the files of the design")
      ->required()
      ->option_text("DIR");
  app.add_option("--latency", options.latency,
                 "clock cycles from the inputs to the outputs, 0 for no registers; default: a register after "
                 "each layer")
      ->option_text("N");
  app.add_option("--top", options.top, "name of the top module; default: the network's")->option_text("NAME");
  app.add_option("--input", options.inputs, "NAME=FILE.npy: samples of an input, for the testbench");
  app.add_option("--dataset", options.dataset,
                 "samples of a data set's test split instead: see `detent list datasets`")
      ->option_text("NAME");
  app.add_option("--data-dir", options.data_dir,
                 "folder of data files; default: $DETENT_DATA, else ~/.cache/detent")
      ->option_text("DIR");
  app.add_option("--vectors", options.vectors,
                 "samples in the testbench; default: all of the data, 256 at random where there are none")
      ->option_text("N");
  app.add_option("--seed", options.seed, "for samples at random")->option_text("N");
  app.add_option(
         "--dont-cares", options.dont_cares,
         "which entries of truth tables may be anything: none; unreachable, which no codes lead to; data, "
         "also those that the data set's training split, or the samples of --input, do not read, after "
         "which other samples may give other results")
      ->capture_default_str()
      ->option_text("NAME");
  app.add_option("--simulate", options.simulators,
                 "run the testbench in verilator, icarus or both, and compare")
      ->delimiter(',')
      ->option_text("NAMES");
  app.add_flag("--synthesize", options.synthesizes, "count the 6-input tables and registers with yosys");
  add_overwrite_option(app, options.overwrite);
  add_result_options(app, options.results);
}

std::vector<Tensor> first_samples(std::vector<Tensor> tensors, const std::optional<int64_t>& count) {
  for (Tensor& tensor : tensors) {
    if (count && tensor.dim(0) > *count) tensor = tensor.rows(0, *count);
  }
  return tensors;
}

std::vector<Tensor> dataset_samples(const EmitOptions& options, const Circuit& circuit, Split split,
                                    const std::optional<int64_t>& most) {
  const auto data = make_dataset(options.dataset, split, {.data_dir = options.data_dir});
  std::vector<int64_t> indices(static_cast<size_t>(std::min(data->size(), most.value_or(data->size()))));
  std::iota(indices.begin(), indices.end(), 0);
  std::vector<Tensor> inputs = data->batch(indices).inputs;
  if (inputs.size() != circuit.inputs.size()) {
    fail("--dataset {}: its samples have {} inputs, the network {}", options.dataset, inputs.size(),
         circuit.inputs.size());
  }
  return inputs;
}

/// By name, in the order of the network's inputs.
std::vector<Tensor> given_samples(const EmitOptions& options, const Circuit& circuit) {
  std::vector<Tensor> tensors(circuit.inputs.size());
  std::vector<bool> given(circuit.inputs.size());
  for (const std::string& text : options.inputs) {
    const size_t at = text.rfind('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size())
      throw UsageError(fmt::format("--input: got \"{}\", expected NAME=FILE.npy", text));
    const std::string name = text.substr(0, at);
    const auto port = std::ranges::find(circuit.inputs, name, &CircuitPort::source);
    if (port == circuit.inputs.end()) {
      std::vector<std::string> names;
      for (const CircuitPort& known : circuit.inputs) names.push_back(known.source);
      throw UsageError("--input: " + unknown_name_message("input", name, names));
    }
    tensors[static_cast<size_t>(port - circuit.inputs.begin())] = to_float32(read_npy(text.substr(at + 1)));
    given[static_cast<size_t>(port - circuit.inputs.begin())] = true;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i])
      throw UsageError(fmt::format("--input: no samples of the input \"{}\"", circuit.inputs[i].source));
  }
  return tensors;
}

void check_shapes(const Circuit& circuit, const std::vector<Tensor>& samples) {
  for (size_t i = 0; i < samples.size(); ++i) {
    const Shape& shape = samples[i].shape();
    const Shape& expected = circuit.inputs[i].shape;
    if (shape.size() == expected.size() + 1 &&
        std::equal(expected.begin(), expected.end(), shape.begin() + 1))
      continue;
    fail("input \"{}\": got samples of shape {}, expected {} each", circuit.inputs[i].source,
         shape_text(shape), shape_text(expected));
  }
}

std::vector<Tensor> samples_of(const EmitOptions& options, const Circuit& circuit) {
  std::vector<Tensor> samples;
  if (!options.inputs.empty()) samples = first_samples(given_samples(options, circuit), options.vectors);
  if (!options.dataset.empty()) samples = dataset_samples(options, circuit, Split::kTest, options.vectors);
  check_shapes(circuit, samples);
  return samples;
}

/// Codes of the inputs that decide which entries of tables matter.
std::vector<std::vector<SignalCodes>> calibration_codes(const EmitOptions& options, const Graph& graph,
                                                        const Circuit& circuit, const TestVectors& vectors) {
  if (parse_choice<DontCares>("--dont-cares", options.dont_cares) != DontCares::kData) return {};
  if (options.dataset.empty()) return vectors.inputs;
  const std::vector<Tensor> samples = dataset_samples(options, circuit, Split::kTrain, {});
  check_shapes(circuit, samples);
  return integer_vectors(graph, circuit, samples).inputs;
}

void write_design(const Design& design, const Table& value, const fs::path& folder, OutputFolder& output) {
  for (const auto& [name, text] : design.files) write_file(output.staged(folder / name), text);
  write_json(output.staged(folder / "report.json"), value);
  output.commit();
}

TextTable layer_table(const DesignResources& resources) {
  TextTable table({"layer", "made of", "in", "out", "products", "LUT6", "depth", "registers"});
  for (const LayerResources& layer : resources.layers) {
    table.add_row(
        {layer.node, layer.kind, std::to_string(layer.inputs), std::to_string(layer.outputs),
         std::to_string(layer.products), (layer.luts_are_counted ? "" : "~") + std::to_string(layer.luts),
         layer.luts_are_counted ? std::to_string(layer.depth) : "", std::to_string(layer.register_bits)});
  }
  return table;
}

std::string lut_text(const DesignResources& resources) {
  if (!resources.luts_are_counted) return fmt::format(", about {} LUT6 by an estimate", resources.luts);
  return fmt::format(", {} LUT6, at most {} one after another in a layer", resources.luts, resources.deepest);
}

/// Simulates and synthesizes; returns whether all bits were equal.
bool run_tools(const EmitOptions& options, const std::vector<Simulator>& simulators, const Circuit& circuit,
               const Design& design, CommandResults& results) {
  bool equal = true;
  List simulations;
  for (const Simulator simulator : simulators) {
    const char* name = enum_name(simulator);
    const SimulationResult found = simulate(options.output, circuit.name, simulator);
    equal = equal && found.differing_bits == 0;
    results.say(
        fmt::format("{}: {} vectors, {} differing bits\n", name, found.vectors, found.differing_bits));
    simulations.push_back(Table{{"simulator", name},
                                {"vectors", found.vectors},
                                {"differing_vectors", found.differing_vectors},
                                {"differing_bits", found.differing_bits}});
  }
  results.add("simulations", std::move(simulations));
  if (!options.synthesizes) return equal;
  const SynthesisResult found = synthesize(options.output);
  const int64_t ours = design.resources.luts;
  std::string text = fmt::format("yosys: {} LUT6, {} register bits", found.luts, found.register_bits);
  if (found.luts > 0)
    text += fmt::format("; {} {} is {:+.1f} % off",
                        design.resources.luts_are_counted ? "our count of" : "the estimate of", ours,
                        100 * (static_cast<double>(ours) / static_cast<double>(found.luts) - 1));
  results.say(text + "\n");
  results.add("synthesis", Table{{"luts", found.luts}, {"register_bits", found.register_bits}});
  return equal;
}

void check_tools(const std::vector<Simulator>& simulators, bool synthesizes) {
  for (const Simulator simulator : simulators) {
    const std::string why = why_no_simulator(simulator);
    if (!why.empty()) fail("--simulate {}: {}", enum_name(simulator), why);
  }
  const std::string why = synthesizes ? why_no_synthesis() : "";
  if (!why.empty()) fail("--synthesize: {}", why);
}

int run_emit_verilog(const std::vector<std::string>& args) {
  CLI::App app(
      "Write a network as Verilog: a module a layer, a testbench with samples and what integer execution "
      "makes of "
      "them, and scripts for simulation and synthesis. Exits with 1 where a simulation differs.",
      "detent emit verilog");
  EmitOptions options;
  add_emit_options(app, options);
  if (!parse_arguments(app, args)) return 0;
  std::vector<Simulator> simulators;
  for (const std::string& name : options.simulators)
    simulators.push_back(parse_choice<Simulator>("--simulate", name));
  const auto dont_cares = parse_choice<DontCares>("--dont-cares", options.dont_cares);
  if (!options.inputs.empty() && !options.dataset.empty())
    throw UsageError("--input and --dataset both say what the samples are: give one of them");
  if (!options.top.empty() && !is_verilog_identifier(options.top))
    throw UsageError(fmt::format(
        "--top: got \"{}\", expected letters, digits and _, and no word that Verilog reserves", options.top));
  if (dont_cares == DontCares::kData && options.inputs.empty() && options.dataset.empty())
    throw UsageError("--dont-cares data: no data: give --dataset or --input");
  check_tools(simulators, options.synthesizes);
  check_writable(fs::path(options.output) / "Makefile", "detent emit verilog");
  say_new_folders(options.output);
  CommandResults results("emit verilog", options.results);
  const Graph graph = read_network(options.model);
  OutputFolder output(options.output, options.overwrite,
                      [](const std::string& text) { log_warning("{}", text); });
  output.check_names({"Makefile", "report.json"});
  const Circuit circuit = make_circuit(graph, {.name = options.top, .latency = options.latency});
  for (const std::string& note : circuit.notes) log_warning("{}", note);
  const std::vector<Tensor> samples = samples_of(options, circuit);
  constexpr int64_t kRandomVectors = 256;
  const TestVectors vectors = samples.empty()
                                  ? random_vectors(graph, circuit, options.vectors.value_or(kRandomVectors),
                                                   static_cast<uint64_t>(options.seed))
                                  : integer_vectors(graph, circuit, samples);
  const auto logic = circuit_logic(circuit, dont_cares, calibration_codes(options, graph, circuit, vectors));
  const Design design = make_design(circuit, logic, vectors);
  const Table value = design_value(circuit, design.resources);
  write_design(design, value, options.output, output);
  results.say(layer_table(design.resources).to_text());
  results.say(wrapped_text(
      fmt::format(
          "{}: top module {}, {} clock cycles from inputs to outputs, {} register bits{}, {} vectors {}",
          options.output, circuit.name, circuit.latency, design.resources.register_bits,
          lut_text(design.resources), vectors.inputs.size(), samples.empty() ? "at random" : "of the data"),
      0, 80));
  results.add("design", value);
  const bool equal = run_tools(options, simulators, circuit, design, results);
  results.finish();
  return equal ? 0 : 1;
}

const std::vector<Command>& emit_commands() {
  static const std::vector<Command> kCommands = {
      {"verilog", "write a network as Verilog, with a testbench", run_emit_verilog},
  };
  return kCommands;
}

}  // namespace

int run_emit(const std::vector<std::string>& args) {
  return run_group({.name = "emit",
                    .help = "Write a network as a description of hardware.",
                    .one = "language",
                    .commands = emit_commands()},
                   args);
}

}  // namespace detent
