#include "kill_cases.h"

#include <fmt/format.h>

#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/files/safetensors.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/builder.h"
#include "detent/graph_files/graph_file.h"
#include "detent/language/networks_for_test.h"

namespace detent {
namespace {

const std::string kTrain = "train toy toy_tiny --num-threads 1 --learning-rate-schedule constant ";
const std::string kTrainBefore = kTrain + "--max-epochs 1 --project t";
const std::string kTrained = "--load detent_output/t/software/training_ckpts/best.ckpt ";
const std::string kTransform = "transform toy toy_tiny --num-threads 1 ";
const std::string kSearch = "detent_output/s/software/search";
const std::string kCompare = "detent_output/c/software/compare";
const std::string kTraining = "detent_output/p/software/training_ckpts";
const std::string kState = kTraining + "/training_state.safetensors";

constexpr const char* kProfileCommand = R"([passes.profile_statistics]
by = "regex_name"
target_weight_nodes = ["seq_blocks_0"]
target_activation_nodes = ["seq_.*"]
num_samples = 512
[passes.profile_statistics.weight_statistics.absmax]
[passes.profile_statistics.activation_statistics]
range_min_max = {dims = [0]}
range_quantile = {}
variance_precise = {}
[passes.save_node_meta_param]
)";

constexpr const char* kStatistics = R"([fc.software.args.weight.stat.range_min_max]
min = -2.0
max = 6.0
count = 8
[fc.software.args.data_in_0.stat.range_min_max]
min = -1.0
max = 1.0
count = 8
)";

std::string quantize_config(int width) {
  return fmt::format(
      "[passes.quantize]\nby = \"type\"\n[passes.quantize.linear.config]\nname = \"fixed\"\n"
      "data_in_width = {0}\nweight_width = {0}\n[passes.save_node_meta_param]\n[passes.save_mase_graph]\n",
      width);
}

std::vector<KillCase> tensor_cases() {
  const std::string quantize =
      "tensor quantize a.safetensors -o out/q.safetensors --overwrite --packed --format ";
  return {
      {.name = "TensorQuantize",
       .result = "out",
       .commands = {quantize + "fixed:width=8", quantize + "fixed:width=4"}},
      {.name = "TensorUnpack",
       .result = "out",
       .commands = {"tensor unpack a.safetensors -o out/a.npy --overwrite",
                    "tensor unpack b.safetensors -o out/a.npy --overwrite"}},
      {.name = "StatToConf",
       .result = "out",
       .commands = {"stat-to-conf statistics.toml out/c.toml --overwrite --format fixed:width=8",
                    "stat-to-conf statistics.toml out/c.toml --overwrite --format fixed:width=4"}},
      {.name = "Example",
       .result = "out",
       .commands = {"example per-channel-activation -o out/p.svg --overwrite",
                    "example per-channel-activation --ramp -o out/p.svg --overwrite"}},
      {.name = "EmitVerilog",
       .result = "design",
       .commands = {"emit verilog sums.mz -o design --vectors 500",
                    "emit verilog sums.mz -o design --vectors 500 --latency 0"}},
  };
}

std::vector<KillCase> single_file_cases() {
  const std::string quantize = "quantize toy toy_tiny " + kTrained +
                               "--num-samples 64 --num-threads 1 --project o --overwrite -o out/q.onnx ";
  const std::string perplexity =
      "perplexity language.mz --ids ids.npy --num-threads 1 --save-logits out/l.npy --overwrite --window ";
  return {
      {.name = "Export",
       .result = "out",
       .commands = {"export plain_a.mz out/m.onnx --overwrite", "export plain_b.mz out/m.onnx --overwrite"}},
      {.name = "ExportWithWeightsBeside",
       .contract = Contract::kWholePair,
       .result = "out",
       .commands = {"export plain_a.mz out/m.onnx --overwrite --external-data",
                    "export plain_b.mz out/m.onnx --overwrite --external-data"}},
      {.name = "QuantizeToOnnx",
       .result = "out",
       .prepare = {kTrainBefore},
       .commands = {quantize + "--weights int4", quantize + "--weights int8"}},
      {.name = "DrawGraph",
       .result = "out",
       .commands = {"info plain_a.mz --graph out/g.dot --overwrite",
                    "info sums.mz --graph out/g.dot --overwrite"}},
      {.name = "Run",
       .result = "out",
       .commands = {"run plain_a.mz --input x=x.npy --output-dir out --overwrite",
                    "run plain_b.mz --input x=x.npy --output-dir out --overwrite"}},
      {.name = "Report",
       .result = "out",
       .commands = {"stats show statistics.toml --report out/r.html --overwrite",
                    "stats show more_statistics.toml --report out/r.html --overwrite"}},
      {.name = "DrawFormat",
       .result = "out",
       .commands = {"formats show fp8_e4m3fn --svg out/f.svg --overwrite",
                    "formats show nvfp4 --svg out/f.svg --overwrite"}},
      {.name = "SaveLogits", .result = "out", .commands = {perplexity + "12", perplexity + "20"}},
  };
}

/// "mine" holds networks, one under three names, and files of other kinds.
std::vector<KillCase> refused_cases() {
  const std::string quantize =
      "quantize mine/net.onnx --calibration x.npy --num-threads 1 --project r --overwrite -o ";
  return {
      {.name = "OutputsThatAreInputs",
       .contract = Contract::kRefused,
       .result = "mine",
       .commands =
           {"export mine/net.onnx mine/net.onnx --overwrite",
            "export mine/net.onnx mine/./link.onnx --overwrite --external-data",
            "export mine/link.onnx mine/twin.onnx --overwrite", quantize + "mine/net.onnx",
            quantize + "mine/link.onnx", quantize + "mine/twin.onnx",
            "info mine/net.dot --graph mine/net.dot --overwrite",
            "tensor quantize mine/a.safetensors -o mine/a.safetensors --overwrite --format fixed:width=8",
            "tensor unpack mine/a.safetensors -o mine/../mine/a.safetensors --overwrite",
            "stat-to-conf mine/s.toml mine/s.toml --overwrite --format fixed:width=8",
            "run mine/net.onnx --compare fc=mine/fc.npy --output-dir mine --overwrite"}},
      {.name = "OutputsThatAreOthers",
       .contract = Contract::kRefused,
       .result = "mine",
       .commands = {"export plain_a.mz mine/net.onnx", "export plain_a.mz mine/link.onnx --external-data",
                    "quantize plain_a.mz --calibration x.npy --num-threads 1 --project r -o mine/notes.onnx",
                    "info plain_a.mz --graph mine/net.dot",
                    "tensor quantize a.safetensors -o mine/a.safetensors --format fixed:width=8",
                    "tensor unpack b.safetensors -o mine/a.safetensors",
                    "stat-to-conf statistics.toml mine/s.toml --format fixed:width=8",
                    "example per-channel-activation -o mine/p.svg",
                    "stats show statistics.toml --report mine/page.html --overwrite",
                    "run plain_a.mz --input x=x.npy --output-dir mine", "emit verilog sums.mz -o mine",
                    "formats show nvfp4 --svg mine/p.svg", "bench plain_a.mz --report mine/page.html",
                    "perplexity language.mz --ids ids.npy --save-logits mine/fc.npy"}},
  };
}

std::vector<KillCase> network_cases() {
  const std::string quantize = "quantize toy toy_tiny " + kTrained +
                               "--num-samples 64 --num-threads 1 --project p --overwrite --weights ";
  const std::string dump =
      "test toy toy_tiny " + kTrained + "--num-threads 1 --dump d --overwrite --dump-samples 4";
  return {
      {.name = "Transform",
       .result = "detent_output/p/software/transform",
       .commands = {kTransform + "--config w4.toml --project p --overwrite",
                    kTransform + "--config w8.toml --project p --overwrite"}},
      {.name = "Profile",
       .contract = Contract::kResumes,
       .result = "detent_output/p/software/transform",
       .commands = {kTransform + "--config profile.toml --project p --checkpoint-every 1"}},
      {.name = "Quantize",
       .result = "detent_output/p/software/quantize",
       .prepare = {kTrainBefore},
       .commands = {quantize + "int4", quantize + "int8"}},
      {.name = "Search",
       .contract = Contract::kResumes,
       .result = kSearch,
       .prepare = {kTrainBefore},
       .commands =
           {"search toy toy_tiny " + kTrained +
            "--num-threads 1 --num-samples 64 --eval-samples 64 --evaluations 24 --winners 1 --project s"},
       .state = kSearch + "/evaluations.jsonl"},
      {.name = "Compare",
       .contract = Contract::kResumes,
       .result = kCompare,
       .prepare = {kTrainBefore},
       .commands = {"compare toy toy_tiny " + kTrained +
                    "--num-threads 1 --num-samples 64 --eval-samples 64 --formats int8,int4,fp8_e4m3fn "
                    "--methods none,bias_correction --project c"},
       .state = kCompare + "/comparison.jsonl"},
      {.name = "Dump",
       .result = "d",
       .prepare = {kTrainBefore},
       .commands = {dump, dump + " --dump-nodes .*"}},
  };
}

std::vector<KillCase> training_cases() {
  const std::string train = kTrain + "--project p --report-to tensorboard --checkpoint-every 3 --max-epochs ";
  const std::string tune =
      kTrain + "--project p --load detent_output/q/software/transform/transformed_ckpt --max-epochs ";
  const std::string replace = kTrain + "--project p --overwrite --max-epochs 2 --learning-rate ";
  return {
      {.name = "Train",
       .contract = Contract::kResumes,
       .result = "detent_output/p/software",
       .commands = {train + "1", train + "2", train + "3"},
       .state = kState,
       .units = {kTraining + "/best.ckpt"}},
      {.name = "TrainQuantized",
       .contract = Contract::kResumes,
       .result = kTraining,
       .prepare = {kTransform + "--config w8.toml --project q"},
       .commands = {tune + "1", tune + "2", tune + "3"},
       .state = kState,
       .units = {kTraining + "/best.ckpt", kTraining + "/transformed_ckpt"}},
      {.name = "TrainAnother",
       .contract = Contract::kNeverBoth,
       .result = kTraining,
       .commands = {replace + "0.1", replace + "0.01"}},
  };
}

void write_tensor(const std::filesystem::path& path, float first) {
  Tensor tensor(DType::kFloat32, {64, 32});
  for (size_t i = 0; i < 64 * 32; ++i) tensor.values<float>()[i] = first + static_cast<float>(i % 97);
  write_safetensors(path, std::vector<std::pair<std::string, Tensor>>{{"a", tensor}});
}

void write_network(const std::filesystem::path& path) {
  constexpr int64_t kInputs = 24;
  GraphBuilder builder("sums");
  Graph graph = builder.finish(builder.linear("fc", builder.input("x", {kInputs}), kInputs, 16));
  Node& fc = graph.node("fc");
  int step = 0;
  for (float& weight : fc.find_parameter("weight")->tensor.values<float>())
    weight = static_cast<float>(step++ % 15 - 7) / 2;
  fc.quantization["data_in_0"] = parse_quant_spec_text("fixed:width=4,frac_width=2");
  fc.quantization["weight"] = parse_quant_spec_text("fixed:width=4,frac_width=1");
  write_graph(path, graph);
}

/// In float, with weights of more than 1 KiB.
void write_plain_network(const std::filesystem::path& path, float first) {
  constexpr int64_t kInputs = 24;
  constexpr int64_t kOutputs = 64;
  GraphBuilder builder("plain");
  Graph graph = builder.finish(builder.linear("fc", builder.input("x", {kInputs}), kInputs, kOutputs));
  float next = first;
  for (float& weight : graph.node("fc").find_parameter("weight")->tensor.values<float>())
    weight = next = 1 - 1.9F * next * next;
  write_graph(path, graph);
}

/// Files of the user's, under the names that results are to have.
void write_files_of_user(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  for (const char* name : {"net.onnx", "net.dot"}) write_plain_network(folder / name, 0.2F);
  fs::create_symlink("net.onnx", folder / "link.onnx");
  fs::create_hard_link(folder / "net.onnx", folder / "twin.onnx");
  write_tensor(folder / "a.safetensors", -40);
  write_file(folder / "s.toml", kStatistics);
  write_npy(folder / "fc.npy", Tensor(DType::kFloat32, {1, 64}));
  for (const char* name : {"notes.onnx", "p.svg", "page.html", "Makefile"}) write_file(folder / name, "mine");
}

}  // namespace

const std::vector<KillCase>& kill_cases() {
  static const std::vector<KillCase> kCases = [] {
    std::vector<KillCase> cases = tensor_cases();
    for (const auto& more : {single_file_cases(), refused_cases(), network_cases(), training_cases()}) {
      cases.insert(cases.end(), more.begin(), more.end());
    }
    return cases;
  }();
  return kCases;
}

void write_inputs_of_cases(const std::filesystem::path& folder) {
  for (const int width : {4, 8}) {
    write_file(folder / fmt::format("w{}.toml", width), quantize_config(width));
  }
  write_file(folder / "profile.toml", kProfileCommand);
  write_file(folder / "statistics.toml", kStatistics);
  write_tensor(folder / "a.safetensors", -40);
  write_tensor(folder / "b.safetensors", -50);
  write_network(folder / "sums.mz");
  write_plain_network(folder / "plain_a.mz", 0.3F);
  write_plain_network(folder / "plain_b.mz", 0.4F);
  WeightsForTest weights;
  write_graph(folder / "language.mz", build_language_graph(small_config(), weights));
  constexpr int64_t kTokens = 70;
  write_npy(folder / "ids.npy",
            Tensor::from<int64_t>({kTokens}, tokens_for_test(kTokens, small_config().vocabulary)));
  Tensor x = Tensor(DType::kFloat32, {4, 24});
  for (float& value : x.values<float>()) value = 1;
  write_npy(folder / "x.npy", x);
  write_file(folder / "more_statistics.toml",
             std::string(kStatistics) +
                 "[fc.software.args.data_out_0.stat.range_min_max]\nmin = -3.0\nmax = 1.0\ncount = 8\n");
  std::filesystem::create_directories(folder / "mine");
  write_files_of_user(folder / "mine");
  std::filesystem::create_directories(folder / "out");
}

}  // namespace detent
