#include "detent/cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "detent/cli/commands/command.h"
#include "detent/cli/program_for_test.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/files/safetensors.h"
#include "detent/files/toml.h"
#include "detent/graph/graph_parameters.h"
#include "detent/graph_files/graph_file.h"
#include "detent/models/model.h"
#include "detent/passes/pass.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kConfigs = std::string(DETENT_SOURCE_DIR) + "/configs/quantized_ops/";

void expect_failure(const std::vector<std::string>& args, int status, const std::string& message) {
  const ProgramResult result = run_program(args);
  EXPECT_EQ(result.status, status) << message;
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.errors, AllOf(StartsWith("detent: error: "), HasSubstr(message)));
}

class CommandLine : public testing::Test {
 protected:
  CommandLine() : folder_(testing::TempDir() + "detent_cli_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~CommandLine() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(CommandLine, EveryCommandHasHelp) {
  const ProgramResult help = run_program({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* command : {"train", "test", "transform", "stat-to-conf", "stats", "quickstart", "list",
                              "data", "info", "version"}) {
    EXPECT_THAT(help.output, HasSubstr(command));
    const ProgramResult result = run_program({command, "--help"});
    EXPECT_EQ(result.status, 0) << command;
    EXPECT_THAT(result.output, HasSubstr(std::string("Usage: detent ") + command));
    EXPECT_EQ(result.errors, "");
    EXPECT_EQ(run_program({"help", command}).output, result.output);
  }
}

TEST_F(CommandLine, WrongUsageIsStatus2) {
  expect_failure({}, 2, "a command is missing");
  expect_failure({"trian"}, 2, "unknown command \"trian\": did you mean \"train\"?");
  expect_failure({"--verion"}, 2, "unknown option \"--verion\": did you mean \"--version\"?");
  expect_failure({"--seed", "3", "train", "toy"}, 2, "come after the command: `detent train ... --seed`");
  expect_failure({"train", "toy", "toy-tiny", "--bach-size", "3"}, 2, "did you mean \"--batch-size\"?");
  expect_failure({"train", "toy", "toy-tiny", "--batch_size=3"}, 2, "did you mean \"--batch-size\"?");
  expect_failure({"train", "toy", "toy-tiny", "more"}, 2, "unexpected argument \"more\"");
  expect_failure({"train", "toy", "toy-tiny", "--seed"}, 2, "--seed");
  expect_failure({"train", "toy", "toy-tiny", "--seed", "two"}, 2,
                 "--seed: got \"two\" (a string), expected integer");
  expect_failure({"train", "toy", "toy-tiny", "--learning-rate", "-1"}, 2, "got -1, expected at least 0");
  expect_failure({"train", "toy", "toy-tiny", "--nesterov=maybe"}, 2, "--nesterov");
  expect_failure({"train", "toy", "toy-tiny", "--max-time", "5"}, 2,
                 "--max-time: got \"5\", expected whole numbers with a unit");
  expect_failure({"train", "toy", "toy-tiny", "--image-mean", "0.5,x"}, 2,
                 "--image-mean: got \"x\" (a string), expected number");
  expect_failure({"train", "toy", "toy-tiny", "--parameter-groups", "x"}, 2, "[parameter_groups.\"REGEX\"]");
  expect_failure({"test", "toy", "toy-tiny", "--load", "/", "--resume"}, 2,
                 "--resume: `detent test` has no such option; it is one of: train");
  expect_failure({"quantize", "toy", "toy-tiny", "--max-epochs", "3"}, 2, "it is one of: train");
  expect_failure({"train", "toy", "toy-tiny", "--engine", "integers"}, 2, "it is one of: test");
  expect_failure({"test", "toy", "toy-tiny", "--projct", "x"}, 2, "unknown option \"--projct\"");
  expect_failure({"train", "toy"}, 2, "no data set");
  expect_failure({"quantize", "toy"}, 2, "--calibration PATH` takes your own: a folder of images");
  expect_failure({"test", "toy"}, 2, "are image_folder with --data-dir FOLDER");
  expect_failure(
      {"test", "toy", "--calibration", "x.npy"}, 2,
      "transform, quantize, search, compare; your own images, with their classes, are image_folder");
  expect_failure({"train"}, 2, "no model");
  expect_failure({"train", "toyy", "toy-tiny"}, 2, "did you mean \"toy\"?");
  expect_failure({"train", "toy", "toy-tini"}, 2, "did you mean \"toy_tiny\"?");
  expect_failure({"train", "--config", "x.json"}, 2, "expected a file whose name ends in .toml");
  expect_failure({"test", "toy", "toy-tiny"}, 2, "--load FILE");
  expect_failure({"transform", "toy", "toy-tiny"}, 2, "--config FILE.toml");
  expect_failure({"list", "modles"}, 2, "did you mean \"models\"?");
  expect_failure({"list", "passes", "gptqq"}, 2, "unknown pass \"gptqq\": did you mean \"gptq\"?");
  expect_failure({"help", "nf4"}, 2, "unknown topic \"nf4\": did you mean \"codebook16\"?");
  expect_failure({"help", "gptqq"}, 2, "unknown topic \"gptqq\": did you mean \"gptq\"?");
  expect_failure({"help", "zzzzzzzz"}, 2, "unknown command \"zzzzzzzz\"");
  expect_failure({"info"}, 2, "file");
  expect_failure({"quickstart", "--seed", "-1"}, 2, "--seed: got -1");
}

TEST_F(CommandLine, EmptyTextsAreRefused) {
  const std::string file = folder_ / "x.npy";
  expect_failure({"tensor", "quantize", file, "--format", "fixed", "-o", ""}, 2,
                 "--output: got \"\", expected FILE");
  expect_failure({"tensor", "unpack", file, "--output="}, 2, "--output");
  expect_failure({"example", "per-channel-activation", "-o", ""}, 2, "--output: got \"\", expected FILE");
  expect_failure({"train", "", "toy-tiny"}, 2, "--model: got \"\"");
  expect_failure({"train", "toy", "toy-tiny", "--project", ""}, 2, "--project: got \"\", expected VALUE");
  expect_failure({"train", "--config", ""}, 2, "--config: got \"\", expected FILE");
  expect_failure({"quickstart", "--output-dir", ""}, 2, "--output-dir: got \"\", expected FOLDER");
  expect_failure({"data", "list", "--data-dir", ""}, 2, "--data-dir: got \"\", expected FOLDER");
}

TEST_F(CommandLine, TwoDashesEndTheOptions) {
  const auto old_folder = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  write_graph("-x.mz", build_model("toy", {1, 2, 2}, 2));
  EXPECT_EQ(run_program({"info", "--", "-x.mz"}).status, 0);
  EXPECT_EQ(run_program({"info", "--json", "--", "-x.mz"}).status, 0);
  expect_failure({"info", "-x.mz"}, 2, "see `detent info --help`");
  expect_failure({"info", "--", "--simd-target"}, 1, "--simd-target");
  expect_failure({"info", "--", "-x.mz", "--json"}, 2, "unexpected argument \"--json\"");
  std::filesystem::current_path(old_folder);
}

TEST_F(CommandLine, ControlCharactersAreEscaped) {
  const std::string name = "\x1b]0;title\x07";
  const ProgramResult missing = run_program({"info", folder_ / name});
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.errors, AllOf(HasSubstr("\\u001b]0;title\\u0007"), Not(HasSubstr("\x1b"))));
  const std::string file = folder_ / "hostile.safetensors";
  const std::vector<std::pair<std::string, Tensor>> tensors = {{name + "\n", Tensor(DType::kFloat32, {1})}};
  write_safetensors(file, tensors, {{"note", name}});
  const ProgramResult info = run_program({"info", file});
  EXPECT_EQ(info.status, 0) << info.errors;
  EXPECT_THAT(info.output, AllOf(HasSubstr("| \\u001b]0;title\\u0007\\u000a |"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(run_program({"info", file, "--json"}).output, AllOf(HasSubstr("note"), Not(HasSubstr("\x1b"))));
}

TEST_F(CommandLine, HelpFitsIn80Columns) {
  const std::vector<std::vector<std::string>> all = {{"--help"},
                                                     {"train", "-h"},
                                                     {"test", "-h"},
                                                     {"transform", "-h"},
                                                     {"quantize", "-h"},
                                                     {"stat-to-conf", "-h"},
                                                     {"stats", "-h"},
                                                     {"quickstart", "-h"},
                                                     {"example", "-h"},
                                                     {"example", "per-channel-activation", "-h"},
                                                     {"list", "-h"},
                                                     {"formats", "-h"},
                                                     {"tensor", "-h"},
                                                     {"tensor", "quantize", "-h"},
                                                     {"tensor", "unpack", "-h"},
                                                     {"tensor", "compare", "-h"},
                                                     {"data", "-h"},
                                                     {"data", "fetch", "-h"},
                                                     {"data", "list", "-h"},
                                                     {"info", "-h"},
                                                     {"version", "-h"},
                                                     {"list", "passes"},
                                                     {"list", "statistics"}};
  for (const std::vector<std::string>& args : all) {
    const ProgramResult result = run_program(args);
    EXPECT_EQ(result.status, 0) << args[0];
    std::istringstream lines(result.output);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  }
}

TEST_F(CommandLine, HelpShowsWhatTheCommandReads) {
  const std::string quantize = run_program({"quantize", "--help-all"}).output;
  EXPECT_LT(quantize.find("\nQuantization:"), quantize.find("\nNetwork and data:"));
  EXPECT_LT(quantize.find("--weights"), quantize.find("--load"));
  EXPECT_LT(quantize.find("--load"), quantize.find("\nMore: Network and data:"));
  EXPECT_THAT(quantize, AllOf(Not(HasSubstr("--max-epochs")), Not(HasSubstr("--engine")),
                              HasSubstr("--batch-size"), HasSubstr("--log-level")));
  const std::string test = run_program({"test", "--help-all"}).output;
  EXPECT_THAT(test,
              AllOf(HasSubstr("--engine"), Not(HasSubstr("--project")), Not(HasSubstr("--learning-rate"))));
  const std::string train = run_program({"train", "--help-all"}).output;
  EXPECT_THAT(train,
              AllOf(HasSubstr("--learning-rate"), HasSubstr("--random-crop"), Not(HasSubstr("--engine"))));
}

TEST_F(CommandLine, HelpBeginsWithUsualOptions) {
  const std::string usual = run_program({"train", "--help"}).output;
  const std::string all = run_program({"train", "--help-all"}).output;
  EXPECT_LT(2 * usual.size(), all.size());
  EXPECT_THAT(usual,
              AllOf(HasSubstr("--learning-rate"), Not(HasSubstr("--random-crop")), Not(HasSubstr("\n\n\n")),
                    HasSubstr(" more options: `detent train --help-all`\n")));
  EXPECT_THAT(all, Not(HasSubstr("more options:")));
  EXPECT_EQ(run_program({"version", "--help-all"}).output, run_program({"version", "--help"}).output);
}

/// Words with one blank between, as no line broke.
std::string unwrapped(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

TEST_F(CommandLine, PassesAreListedWithTheMeaningOfEachOption) {
  const std::string all = unwrapped(run_program({"list", "passes"}).output);
  for (const PassInfo& pass : all_passes()) {
    const std::string listed = run_program({"list", "passes", pass.name}).output;
    const std::string text = unwrapped(listed);
    EXPECT_THAT(run_program({"help", pass.name}).output, HasSubstr("pass: " + listed));
    EXPECT_THAT(all, HasSubstr(text));
    EXPECT_THAT(text, HasSubstr(unwrapped(pass.help)));
    for (const FieldDescription& option : pass.options) {
      EXPECT_THAT(text, HasSubstr(unwrapped(option.name + " " + option.help + " (" + option.type)));
      EXPECT_THAT(text, HasSubstr(unwrapped("default " + option.default_value + ")")));
    }
  }
  EXPECT_THAT(unwrapped(run_program({"help", "gptq"}).output),
              HasSubstr("num_samples training samples to run (integer, at least 1; default 1024)"));
  EXPECT_THAT(run_program({"help", "histogram"}).output, HasSubstr("statistic: histogram"));
  EXPECT_THAT(run_program({"help", "toy"}).output, HasSubstr("model:\n| name"));
}

TEST_F(CommandLine, HelpKnowsEveryNameOfEveryList) {
  const Value lists = parse_json(run_program({"list", "--json"}).output, "list");
  size_t names = 0;
  for (const auto& [kind, entries] : *lists.get_if<Table>()) {
    for (const Value& entry : *entries.get_if<List>()) {
      const Table& table = *entry.get_if<Table>();
      List all = {*table.find("name")};
      if (const Value* aliases = table.find("aliases"))
        all.insert(all.end(), aliases->get_if<List>()->begin(), aliases->get_if<List>()->end());
      for (const Value& name : all) {
        ++names;
        const std::string text = *name.get_if<std::string>();
        EXPECT_THAT(topic_text(text), HasSubstr(*table.find("name")->get_if<std::string>())) << kind;
      }
    }
  }
  EXPECT_GT(names, 250U);
  const auto help = [](const char* name) { return unwrapped(run_program({"help", name}).output); };
  EXPECT_THAT(help("guided"), HasSubstr("search strategy: | name"));
  EXPECT_THAT(help("fp8"), AllOf(HasSubstr("fp8_e4m3fn (number format)"), HasSubstr("fp8_e5m2")));
  EXPECT_THAT(help("LSQ"), AllOf(HasSubstr("int4_lsq (quantizer for training)"), HasSubstr("w4a8_lsq")));
  EXPECT_THAT(help("int5"), HasSubstr("bits a value: 5"));
  EXPECT_THAT(help("log:width=4"), HasSubstr("bits a value: 4"));
  EXPECT_THAT(help("--num-threads"), AllOf(HasSubstr("option: detent train --num-threads"),
                                           HasSubstr("detent bench --num-threads")));
  EXPECT_THAT(help("entropy"), HasSubstr("detent quantize --calibrator"));
  expect_failure({"help", "int99"}, 2, "got 99 bits, expected at least 2 and at most 16");
}

TEST_F(CommandLine, FoldersAndFilesOfOtherProgramsAreNamed) {
  const std::string folder = folder_ / "bert";
  std::filesystem::create_directories(folder);
  write_file(folder + "/model.safetensors", "");
  const auto refused = [&](const std::string& model, const std::string& message) {
    expect_failure({"quantize", model, "toy_tiny"}, 1, message);
    expect_failure({"bench", model}, 1, message);
    expect_failure({"export", model, "x.onnx"}, 1, message);
  };
  refused(folder, "bert: a folder with neither graph_module.mz nor config.json, expected a graph (.mz)");
  write_file(folder + "/model.onnx", "");
  refused(folder, "nor config.json (but with " + folder + "/model.onnx: give the file)");
  write_file(folder + "/config.json", R"({"model_type": "bert", "hidden_size": 384})");
  const std::string message = "bert/config.json: there is no key \"vocab_size\"";
  refused(folder, message);
  expect_failure({"info", folder}, 1, message);
  expect_failure({"train", "toy", "toy_tiny", "--load", folder}, 1, message);
  const auto old_folder = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  expect_failure({"quantize", ".", "toy_tiny"}, 1, "there is no key \"vocab_size\"");
  std::filesystem::current_path(old_folder);
  const std::string file = folder_ / "llama.gguf";
  write_file(file, "GGUF\x03 and so on");
  expect_failure({"export", file, "x.onnx"}, 1, "llama.gguf: is of version ");
}

TEST_F(CommandLine, ExportsTheCheckpointOfABuiltInModel) {
  const Graph graph = build_model("toy", {1, 2, 2}, 2);
  const std::string file = folder_ / "toy.safetensors";
  write_safetensors(file, state_dict(graph));
  const std::string model = folder_ / "toy.onnx";
  expect_failure({"export", file, model}, 1, "name the model (--model, one of `detent list models`)");
  expect_failure({"bench", file}, 1, "`detent export " + file + " MODEL.onnx --model NAME`");
  expect_failure({"export", file, model, "--classes", "2"}, 2, "--classes: got 2 without --model");
  expect_failure({"export", file, model, "--model", "toi"}, 1, "unknown model \"toi\"");
  const ProgramResult result = run_program({"export", file, model, "--model", "toy"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(run_program({"bench", model, "--seconds", "0"}).status, 0);
}

TEST_F(CommandLine, AnUnknownOptionIsNamedThoughItsValueIsOneArgumentTooMany) {
  expect_failure({"export", "x.pt", "--modle", "resnet18", "-o", "y.onnx"}, 2,
                 "unknown option \"--modle\": did you mean \"--model\"?");
}

TEST_F(CommandLine, ThreadsHaveOneNameAndOneRange) {
  const std::string file = folder_ / "toy.mz";
  write_graph(file, build_model("toy", {1, 2, 2}, 2));
  for (const std::string command : {"bench", "run"}) {
    for (const std::string count : {"0", "-1", "4097", "two", "1.5"})
      expect_failure({command, file, "--num-threads", count}, 2, "--num-threads: got ");
  }
  const ProgramResult former = run_program({"bench", file, "--seconds", "0", "--threads", "0", "--json"});
  EXPECT_EQ(former.status, 0) << former.errors;
  EXPECT_THAT(former.errors, HasSubstr("the option \"--threads\" is now called \"--num-threads\""));
  EXPECT_NO_THROW(parse_json(former.output, "bench")) << former.output;
  expect_failure({"bench", file, "--threads", "1", "--num-threads", "1"}, 2, "which are the same");
  EXPECT_EQ(run_program({"bench", file, "--seconds", "0", "--num-threads", "NA"}).status, 0);
  const ProgramResult many = run_program({"bench", file, "--seconds", "0", "--num-threads", "4096"});
  EXPECT_EQ(many.status, 0);
  EXPECT_THAT(many.errors, HasSubstr("--num-threads 4096: "));
}

TEST_F(CommandLine, FailuresAreStatus1) {
  expect_failure({"train", "--config", "missing.toml"}, 1, "missing.toml");
  expect_failure({"info", "missing.mz"}, 1, "missing.mz");
  expect_failure({"stat-to-conf", "missing.toml", "out.toml"}, 1, "missing.toml");
  expect_failure({"train", "toy", "toy-tiny", "--log-level", "loud"}, 1, "log level");
}

TEST_F(CommandLine, ListsWhatThereIs) {
  EXPECT_THAT(run_program({"list", "models"}).output, AllOf(HasSubstr("| toy "), HasSubstr("mnist_cnn")));
  const std::string datasets = run_program({"list", "datasets"}).output;
  EXPECT_THAT(datasets, HasSubstr("toy-tiny"));
  EXPECT_THAT(datasets, HasSubstr("\ncifar10\n  Photographs of 10 classes"));
  std::istringstream lines(datasets);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
  const std::string all = run_program({"list"}).output;
  EXPECT_THAT(all, AllOf(HasSubstr("quantize"), HasSubstr("conv2d"), HasSubstr("integer"),
                         HasSubstr("range_min_max")));
  const Value json = parse_json(run_program({"list", "--json"}).output, "list");
  EXPECT_EQ(json.get_if<Table>()->size(), 8U);
  const ProgramResult formats = run_program({"list", "formats", "--json"});
  EXPECT_TRUE(parse_json(formats.output, "list").get_if<Table>()->contains("formats"));
}

TEST_F(CommandLine, TellsItsVersion) {
  const std::string version = run_program({"version"}).output;
  EXPECT_THAT(version, AllOf(StartsWith("detent 0."), HasSubstr("compiler "), Not(HasSubstr("libtorch"))));
  EXPECT_EQ(run_program({"-V"}).output, version);
  EXPECT_THAT(run_program({"version", "--all"}).output, HasSubstr("libtorch "));
}

TEST_F(CommandLine, ShowsWhatAGraphHolds) {
  const std::string file = folder_ / "toy.mz";
  Graph graph = build_model("toy", {1, 2, 2}, 2);
  graph.node("seq_blocks_2").quantization["weight"] = QuantSpec{Ternary(), {}, 0, {}};
  write_graph(file, graph);
  const ProgramResult text = run_program({"info", file});
  EXPECT_EQ(text.status, 0) << text.errors;
  EXPECT_THAT(text.output, AllOf(HasSubstr("kind: graph"), HasSubstr("weight=ternary"), HasSubstr("[100, 4]"),
                                 HasSubstr("parameters: 10802")));
  const Value json = parse_json(run_program({"info", file, "--json"}).output, "info");
  EXPECT_EQ(*json.get_if<Table>()->find("bytes"), Value(10802 * 4));
  write_file(file, "neither");
  EXPECT_EQ(run_program({"info", file}).status, 1);
}

TEST_F(CommandLine, TurnsStatisticsIntoAConfiguration) {
  const std::string statistics = std::string(DETENT_SOURCE_DIR) + "/tests/data/stats_for_quantisation.toml";
  const std::string output = folder_ / "out.toml";
  const ProgramResult result =
      run_program({"stat-to-conf", statistics, output, "--base", kConfigs + "toy_ternary_base.toml"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(read_file(output), HasSubstr("[passes.quantize.seq_blocks_4.config]"));
  EXPECT_EQ(*read_toml(output).table("passes").table("quantize").find("by"), Value("name"));
}

}  // namespace
}  // namespace detent
