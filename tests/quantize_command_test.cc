// `detent quantize` as its users run it.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "program_in_folder_for_test.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class QuantizeCommand : public TrainedDigits {
 protected:
  static int quantize(const std::string& options) {
    return run(
        "detent quantize digits_cnn digits --project quantized --overwrite --load "
        "digits.pt " +
        options);
  }
  static fs::path graph_folder() { return folder() / "detent_output/quantized/software/quantize"; }
  /// Correct answers after "test before: " or "test after: ".
  static int correct(const std::string& line) {
    const std::string text = log();
    const size_t open = text.find('(', text.find(line));
    return std::stoi(text.substr(open + 1));
  }
};

TEST_F(QuantizeCommand, OverflowsOfAccumulatorsAreCounted) {
  ASSERT_EQ(quantize("--num-samples 64 --improve none --accumulator 'block_conv.*=int14,int24'"), 0) << log();
  EXPECT_THAT(log(), ContainsRegex("\\| block_conv1 +\\| int14 +\\| +[0-9]+ \\|"));
  EXPECT_THAT(
      log(), ContainsRegex("accumulators of [0-9]+ layers, 64 samples: [1-9][0-9]* of [0-9]+ sums overflow"));
  const std::string graph = (graph_folder() / "graph_module.mz").string();
  ASSERT_EQ(run("detent test digits_cnn digits --json --load " + graph), 0) << log();
  EXPECT_THAT(log(), HasSubstr("\"sums_with_overflow\""));
  ASSERT_EQ(run("detent quantize digits_cnn digits --project narrow --load digits.pt --num-samples 64 "
                "--weights int4 "
                "--activations uint4 --accumulator int12 --improve axe"),
            0)
      << log();
  EXPECT_THAT(log(), ContainsRegex("accumulators of [0-9]+ layers, 64 samples: no overflow"));
  ASSERT_EQ(run("detent info detent_output/narrow/software/quantize/graph_module.mz"), 0);
  EXPECT_THAT(log(), ContainsRegex("accumulators: .* bits"));
}

/// The environment of a processor without AVX-512, as far as the libraries can be made to believe it. On such
/// a processor both runs are the same.
TEST_F(QuantizeCommand, TheProcessorDoesNotChangeAByte) {
#if defined(DETENT_NATIVE_KERNELS)
  GTEST_SKIP() << "kernels are compiled for this processor alone (DETENT_SIMD=native)";
#elif defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) GTEST_SKIP() << "needs AVX2";
#else
  GTEST_SKIP() << "knows the instruction sets of x86 only";
#endif
  const auto quantized_on = [](const std::string& processor) {
    EXPECT_EQ(run(processor + " detent quantize digits_cnn digits --project quantized --overwrite --load "
                              "digits.pt --num-samples 200 "
                              "--calibrator entropy --improve gptq,bias_correction"),
              0)
        << log();
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(graph_folder())) {
      if (entry.is_regular_file()) files[entry.path().filename()] = read_file(entry.path());
    }
    return files;
  };
  const auto here = quantized_on("");
  const auto there = quantized_on(
      "DETENT_SIMD_TARGET=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell ATEN_CPU_CAPABILITY=avx2");
  EXPECT_GT(here.size(), 6U);
  for (const auto& [name, bytes] : here) EXPECT_EQ(there.at(name), bytes) << name;
}

TEST_F(QuantizeCommand, ComparesExecutesAndSaves) {
  ASSERT_EQ(quantize("--num-samples 200"), 0) << log();
  EXPECT_THAT(log(), AllOf(HasSubstr("200 samples profiled"), HasSubstr("| SQNR alone |"),
                           HasSubstr("integer execution: 16 samples"),
                           HasSubstr("all integers equal fake quantization")));
  const int before = correct("test before:");
  const int after = correct("test after:");
  EXPECT_GT(before, 200);
  EXPECT_NEAR(after, before, 4);
  EXPECT_THAT(log(), ContainsRegex("weights, values +\\| +9914 \\|"));
  EXPECT_THAT(log(), ContainsRegex("weights, bytes with their scales +\\| +39656 \\| +[0-9]+ \\| "
                                   "[34]\\.[0-9]+ times smaller"));
  EXPECT_THAT(log(), ContainsRegex("bits a weight, average +\\| +32\\.00 \\| +[89]\\.[0-9]+ \\| +-2"));
  EXPECT_THAT(log(), ContainsRegex("bits an activation, average +\\| +32\\.00 \\|"));
  EXPECT_THAT(log(), ContainsRegex("test accuracy +\\| +0\\.[0-9]+ \\| +0\\.[0-9]+ \\| +[+-]0\\.0"));
  EXPECT_THAT(log(), HasSubstr("written to detent_output/quantized/software/quantize:\n  graph_module.mz\n"));
  for (const char* name : {"layerwise_error.csv", "layerwise_error.json", "static_quantize/integer_plan.csv",
                           "static_quantize/quantize_histogram.csv", "static_quantize/quantize_table.csv"}) {
    EXPECT_THAT(log(), HasSubstr(fmt::format("  {}\n", name)));
  }
  const fs::path graph = folder() / "detent_output/quantized/software/quantize/graph_module.mz";
  ASSERT_TRUE(fs::exists(graph));
  EXPECT_TRUE(fs::exists(graph.parent_path() / "layerwise_error.csv"));
  ASSERT_EQ(run("detent test digits_cnn digits --load " + graph.string()), 0) << log();
  EXPECT_THAT(log(), HasSubstr("(quantized)"));
  EXPECT_EQ(correct("test:"), after) << "what was saved is what was measured";
  ASSERT_EQ(run("detent test digits_cnn digits --engine integers --load " + graph.string()), 0) << log();
  EXPECT_EQ(correct("test:"), after) << "integers classify as the simulation does";
  ASSERT_EQ(run("detent info " + graph.string()), 0) << log();
  EXPECT_THAT(log(), AllOf(HasSubstr("packed parameters: 5\n"), HasSubstr("affine:symmetric=true")));
  EXPECT_NE(run("detent quantize digits_cnn digits --load " + graph.string()), 0);
  EXPECT_THAT(log(), HasSubstr("is quantized already"));
}

TEST_F(QuantizeCommand, TrainsWithQuantizersAndATeacher) {
  if (!kHasTraining) GTEST_SKIP() << "built without libtorch, which training needs";
  const std::string network = "--load digits.pt";
  const std::string train = "detent train digits_cnn digits --max-epochs 12 --batch-size 32 " + network;
  ASSERT_EQ(run("detent test digits_cnn digits " + network), 0) << log();
  const int in_float = correct("test:");
  ASSERT_EQ(run(train + " --quantize ternary_a8_lsq --project qat --teacher digits.pt --distill-weight 0.7 "
                        "--warmup-steps 20"),
            0)
      << log();
  EXPECT_THAT(log(), AllOf(HasSubstr("prepare_qat: 5 of 5 layers"), HasSubstr(", quantized;")));
  EXPECT_GE(correct("epoch): "), in_float - 7) << "2 %";
  const std::string graph = "detent_output/qat/software/training_ckpts/transformed_ckpt/graph_module.mz";
  EXPECT_NE(run("detent train digits_cnn digits --load " + graph + " --quantize int4_lsq"), 0);
  EXPECT_THAT(log(), HasSubstr("is quantized already"));
  EXPECT_NE(run(train + " --quantize int4_lqs"), 0);
  EXPECT_THAT(log(), HasSubstr("did you mean \"int4_lsq\""));
  EXPECT_NE(run(train + " --teacher nothing.pt"), 0);
  EXPECT_THAT(log(), HasSubstr("nothing.pt"));
}

/// Quantizers that were trained stay: the network is made ready for integers, and packed.
TEST_F(QuantizeCommand, FinishesWhatWasTrained) {
  if (!kHasTraining) GTEST_SKIP() << "built without libtorch, which training needs";
  ASSERT_EQ(
      run("detent train digits_cnn digits --max-epochs 2 --batch-size 32 --quantize int4_lsq --project int4 "
          "--load digits.pt"),
      0)
      << log();
  const std::string trained = "detent_output/int4/software/training_ckpts/transformed_ckpt/graph_module.mz";
  EXPECT_NE(run("detent test --dataset digits --engine integers --load " + trained), 0);
  EXPECT_THAT(log(), HasSubstr("`detent quantize` does that"));
  const std::string finish = "detent quantize --dataset digits --load " + trained;
  ASSERT_EQ(run(finish + " -o trained.onnx"), 0) << log();
  EXPECT_THAT(log(), AllOf(HasSubstr("3 batch norms folded, 5 layers compute on integers"),
                           HasSubstr("the network's quantizers were trained, and stay"),
                           HasSubstr("all integers equal fake quantization"),
                           HasSubstr("| trained | quantized |"), HasSubstr("ONNX model: trained.onnx")));
  EXPECT_NEAR(correct("test after:"), correct("test before:"), 3) << "sums are rounded elsewhere";
  const int simulated = correct("test after:");
  std::string graph;
  for (const auto& entry : fs::directory_iterator(folder() / "detent_output")) {
    if (entry.path().filename().string().ends_with("_integers"))
      graph = entry.path() / "software/quantize/graph_module.mz";
  }
  EXPECT_LT(fs::file_size(graph), fs::file_size(folder() / trained) / 2) << "packed";
  ASSERT_EQ(run("detent test --dataset digits --engine integers --load " + graph), 0) << log();
  EXPECT_EQ(correct("test:"), simulated);

  EXPECT_NE(run(finish + " --weights int8"), 0);
  EXPECT_THAT(log(),
              HasSubstr("--weights: the network brings its quantizers, which stay as they were trained"));
  EXPECT_NE(run(finish + " --improve gptq"), 0);
  EXPECT_THAT(log(), HasSubstr("--improve gptq: the network brings its quantizers"));
  EXPECT_NE(run(finish + " --improve hadamard"), 0);
  EXPECT_THAT(log(), HasSubstr("--improve hadamard: the network brings its quantizers"));
  EXPECT_NE(run("detent quantize --dataset digits --load " + graph), 0);
  EXPECT_THAT(log(), HasSubstr("the network is quantized already"));
}

/// The same loss and accuracy to the last digit, and the same values.
TEST_F(QuantizeCommand, PacksWeightsWithoutChangingAnything) {
  if (!kHasTraining) GTEST_SKIP() << "built without libtorch, which training needs";
  const auto tested = [](const std::string& options) {
    EXPECT_EQ(quantize("--num-samples 100 --weights int4 " + options), 0) << log();
    EXPECT_EQ(run("detent test digits_cnn digits --load " + graph_folder().string()), 0) << log();
    return log().substr(log().find("test: "));
  };
  const std::string of_floats = tested("--packed-weights false");
  const auto float_size = fs::file_size(graph_folder() / "graph_module.mz");
  fs::copy(graph_folder() / "graph_module.mz", folder() / "floats.mz", fs::copy_options::overwrite_existing);
  EXPECT_EQ(tested(""), of_floats);
  // 9,770 weights and biases, of 32 bits and of 4 for all but the biases.
  EXPECT_LT(fs::file_size(graph_folder() / "graph_module.mz") + 30000, float_size);
  const std::string graph = (graph_folder() / "graph_module.mz").string();
  ASSERT_EQ(run("detent tensor unpack " + graph + " -o values.safetensors"), 0) << log();
  ASSERT_EQ(run("detent tensor compare " + graph + " values.safetensors"), 0) << log();
  EXPECT_THAT(log(), Not(HasSubstr("0.99")));
  ASSERT_EQ(run("detent train digits_cnn digits --max-epochs 1 --project tuned --overwrite --load " + graph),
            0)
      << log();
  EXPECT_THAT(
      log(),
      HasSubstr("5 parameters are stored as packed integers: training resumes from their rounded values"));
  ASSERT_EQ(run("detent train digits_cnn digits --max-epochs 1 --project tuned --overwrite --load floats.mz"),
            0)
      << log();
  EXPECT_THAT(log(), Not(HasSubstr("stored as codes")));
}

/// Sums of groups have no single scale.
TEST_F(QuantizeCommand, TakesGroupsOfWeights) {
  ASSERT_EQ(quantize("--num-samples 100 --weights int4 --weight-granularity group --weight-group-size 32 "
                     "--weight-calibrator mse --improve gptq"),
            0)
      << log();
  EXPECT_THAT(log(), HasSubstr("x conv2d (a scale a group of weights)"));
  EXPECT_THAT(log(), HasSubstr("all integers equal fake quantization"));
  const int after = correct("test after:");
  EXPECT_GT(after, 180);
  ASSERT_EQ(run("detent test digits_cnn digits --load " + graph_folder().string()), 0) << log();
  EXPECT_EQ(correct("test:"), after);
  ASSERT_EQ(run("detent info " + (graph_folder() / "graph_module.mz").string()), 0) << log();
  EXPECT_THAT(log(), HasSubstr("granularity=group,group_size=32"));
  EXPECT_NE(quantize("--weight-granularity group"), 0);
  EXPECT_THAT(log(), HasSubstr("--weight-group-size is missing"));
  EXPECT_NE(quantize("--weight-group-size 32"), 0);
  EXPECT_THAT(log(), HasSubstr("which only weight_granularity = \"group\" reads"));
  EXPECT_NE(quantize("--calibrator mse --num-sigma 4"), 0);
  EXPECT_THAT(log(), HasSubstr("--num-sigma: got 4, which only calibrator = \"n_sigma\" reads"));
}

TEST_F(QuantizeCommand, TakesTheOptionsOfThePass) {
  ASSERT_EQ(
      quantize(
          "--weights int3 --activations int6 --elementwise int8 --calibrator mse --symmetric-activations "
          "true --weight-granularity tensor --requantization fixed_point --edge-layers eight_bits"),
      0)
      << log();
  EXPECT_THAT(log(), HasSubstr("all integers equal fake quantization"));
  ASSERT_EQ(quantize("--keep-float fc.*,stem_conv"), 0) << log();
  EXPECT_THAT(log(), HasSubstr("(not quantized): stem_conv"));
  EXPECT_THAT(log(), HasSubstr("all integers equal fake quantization"));
}

TEST_F(QuantizeCommand, ReplacesNoResultOfOtherSettings) {
  const std::string command =
      "detent quantize digits_cnn digits --load digits.pt "
      "--num-samples 100 ";
  ASSERT_EQ(run(command + "--project kept --weights int4"), 0) << log();
  const fs::path graph = folder() / "detent_output/kept/software/quantize/graph_module.mz";
  const std::string first = read_file(graph);
  EXPECT_EQ(run(command + "--project kept --weights int3"), 1);
  EXPECT_THAT(log(),
              AllOf(HasSubstr("kept/software/quantize/graph_module.mz holds the result of other settings "
                              "(passes.static_quantize.weights = \"int4\", got \"int3\")"),
                    HasSubstr("--project NAME"), HasSubstr("--overwrite"), Not(HasSubstr("test before"))));
  EXPECT_EQ(run(command + "--project kept --weights int4 --improve gptq"), 1);
  EXPECT_EQ(read_file(graph), first);
  ASSERT_EQ(run(command + "--project kept --weights int4"), 0) << log();
  EXPECT_THAT(log(), HasSubstr("holds the result of this command: it is repeated and replaced"));
  EXPECT_EQ(read_file(graph), first);
  ASSERT_EQ(run(command + "--project kept --weights int3 --overwrite"), 0) << log();
  EXPECT_NE(read_file(graph), first);
  fs::remove(graph.parent_path() / "settings.toml");
  EXPECT_EQ(run(command + "--project kept --weights int3"), 1);
  EXPECT_THAT(log(), HasSubstr("settings.toml does not say what it is"));
}

/// Formats without codes in integer execution are measured as they are executed.
TEST_F(QuantizeCommand, BenchTakesFormatsWithoutCodes) {
  ASSERT_EQ(quantize("--num-samples 20 --weights fp8_e4m3fn --activations mx_e4m3"), 0) << log();
  const std::string graph = (graph_folder() / "graph_module.mz").string();
  ASSERT_EQ(run("detent bench --seconds 0.01 --profile " + graph), 0) << log();
  EXPECT_THAT(log(), HasSubstr("fake quantization"));
  EXPECT_THAT(log(), HasSubstr("convolution float"));
}

TEST_F(QuantizeCommand, NamesItsFolderByTheWidths) {
  const std::string command =
      "detent quantize digits_cnn digits --load digits.pt "
      "--num-samples 20 ";
  ASSERT_EQ(run(command + "--weights int4 --activations uint6"), 0) << log();
  EXPECT_THAT(log(), HasSubstr("_w4a6/software/quantize/graph_module.mz"));
  ASSERT_EQ(run(command + "--elementwise uint10"), 0) << log();
  EXPECT_THAT(log(), HasSubstr("_w8a8e10/software/quantize/graph_module.mz"));
  ASSERT_EQ(run(command + "--weights mx_e2m1"), 0) << log();
  EXPECT_THAT(log(), HasSubstr("_wmx4_a8/software/quantize/graph_module.mz"));
  EXPECT_THAT(log(), HasSubstr("7 nodes compute in integers"));
}

TEST_F(QuantizeCommand, ChecksPassesBeforeItLoadsData) {
  const std::string command =
      "detent quantize mnist_cnn mnist --data-dir nowhere --load "
      "digits.pt ";
  EXPECT_NE(run(command + "--improve bias_correction,gptq"), 0);
  EXPECT_THAT(log(), HasSubstr("the right order is fuse_batch_norm, static_quantize, gptq, bias_correction"));
  EXPECT_NE(run(command + "--improve gptq,adaround"), 0);
  EXPECT_THAT(log(), HasSubstr("both choose the weights"));
  EXPECT_NE(run(command + "--weights codebook16 -o q.onnx"), 0);
  EXPECT_THAT(log(), HasSubstr("-o q.onnx: --weights: an ONNX model of the style qdq cannot hold codebook"));
  EXPECT_NE(run(command + "--formats fc=/mx_e4m3 -o q.onnx"), 0);
  EXPECT_THAT(log(), HasSubstr("--formats fc: an ONNX model"));
  EXPECT_NE(run(command + "--activations int4:granularity=channel -o q.onnx"), 0);
  EXPECT_THAT(log(), HasSubstr("scales of channels that follow from the data at every run"));
  EXPECT_NE(run(command + "--weights nvfp4 --improve adaround"), 0);
  EXPECT_THAT(log(), HasSubstr("--improve adaround: --weights: nvfp4: the scale of a block follows"));
  EXPECT_NE(run(command + "--formats fc=mx_e2m1 --improve signround"), 0);
  EXPECT_THAT(log(), HasSubstr("--improve signround: --formats fc: mx: the scale of a block follows"));
  EXPECT_NE(run(command + "--weights tf32 --improve gptq"), 0);
  EXPECT_THAT(log(), HasSubstr("--improve gptq: --weights: tf32 has 19 bits, expected at most 16"));
  EXPECT_NE(run(command + "--weights tf32 --improve adaround"), 0);
  EXPECT_THAT(log(), HasSubstr("--improve adaround: --weights: tf32 has 19 bits, expected at most 16"));
  EXPECT_NE(run(command + "--prepare gptq"), 0);
  EXPECT_THAT(log(), HasSubstr("the right order is static_quantize, gptq"));
  const auto transform = [&](const std::string& passes) {
    std::ofstream(folder() / "wrong.toml") << passes;
    EXPECT_NE(run("detent transform mnist_cnn mnist --data-dir nowhere --config wrong.toml"), 0) << passes;
    return log();
  };
  EXPECT_THAT(
      transform("[passes.quantize]\nby = \"type\"\n[passes.quantize.linear.config]\nname = \"fxed\"\n"),
      HasSubstr("wrong.toml, [passes.quantize] linear.config: unknown format \"fxed\""));
  EXPECT_THAT(transform("[passes.static_quantize]\n[passes.gptq]\npercdamp = -1\n"),
              HasSubstr("wrong.toml, [passes.gptq]: key \"percdamp\": got -1"));
}

TEST_F(QuantizeCommand, TransformRefusesLikewise) {
  const std::string network = " --load digits.pt --project transformed";
  std::ofstream(folder() / "profile.toml")
      << "[passes.profile_statistics]\nby = \"type\"\ntarget_activation_nodes = [\"linear\"]\n"
         "[passes.profile_statistics.activation_statistics.range_min_max]\n";
  for (const int width : {4, 5}) {
    std::ofstream(folder() / fmt::format("w{}.toml", width))
        << "[passes.quantize]\nby = \"type\"\n[passes.quantize.default.config]\nname = \"NA\"\n"
        << "[passes.quantize.conv2d.config]\nname = \"affine\"\nweight_symmetric = true\nweight_width = "
        << width << "\n";
  }
  const auto transform = [&](const std::string& config, const std::string& options = "") {
    return run("detent transform digits_cnn digits --config " + config + network + options);
  };
  ASSERT_EQ(transform("profile.toml"), 0) << log();
  ASSERT_EQ(transform("w4.toml"), 0) << log();
  EXPECT_THAT(log(), HasSubstr("holds a network that no pass has changed: it is replaced"));
  const fs::path graph =
      folder() / "detent_output/transformed/software/transform/transformed_ckpt/graph_module.mz";
  const std::string first = read_file(graph);
  EXPECT_EQ(transform("w5.toml"), 1);
  EXPECT_THAT(
      log(),
      AllOf(HasSubstr("holds the result of other settings (passes.quantize.conv2d.config.weight_width = "
                      "4, got 5)"),
            Not(HasSubstr("validation before"))));
  EXPECT_EQ(transform("profile.toml"), 1) << "nor is it replaced by one that is not changed";
  EXPECT_EQ(read_file(graph), first);
  EXPECT_EQ(transform("w4.toml"), 0) << log();
  EXPECT_EQ(transform("w5.toml", " --overwrite"), 0) << log();
  EXPECT_EQ(
      run("detent transform digits_cnn digits --project twice --config w4.toml --load " + graph.string()), 1);
  EXPECT_THAT(log(), AllOf(HasSubstr("quantized already with other formats"), HasSubstr("weight)"),
                           Not(HasSubstr("validation before"))));
}

TEST_F(QuantizeCommand, GivesNodesWidthsOfTheirOwn) {
  ASSERT_EQ(quantize("--weights int3 --bits 'block.*=4,fc=8/6' --bits stem_conv=8"), 0) << log();
  EXPECT_THAT(log(), HasSubstr("all integers equal fake quantization"));
  EXPECT_NE(quantize("--bits 'blok.*=4'"), 0);
  EXPECT_THAT(log(), HasSubstr("key \"bits\": \"blok.*\" matches no node: did you mean \"block_conv1\"?"));
  ASSERT_EQ(run("detent quantize --help"), 0);
  EXPECT_THAT(log(), AllOf(HasSubstr("--bits"), HasSubstr("'layer1.*=4'")));
}

/// A line of advice: options, and the SQNR that they are said to give.
struct Promise {
  std::string options;
  double sqnr = 0;
};

std::vector<Promise> promises(const std::string& text) {
  std::vector<Promise> found;
  for (size_t at = text.find("\n  --"); at != std::string::npos; at = text.find("\n  --", at + 1)) {
    const size_t end = text.find(" dB (", at);
    const size_t colon = text.rfind(": ", end);
    found.push_back({text.substr(at + 3, colon - at - 3), std::stod(text.substr(colon + 2))});
  }
  return found;
}

double sqnr_of_logits(const std::string& text) {
  const std::string before = "the logits have an SQNR of ";
  return std::stod(text.substr(text.find(before) + before.size()));
}

/// The advice is followed, and the ranking compared with what 8 bits for one layer alone win.
TEST_F(QuantizeCommand, RanksLayersByWhatTheyWin) {
  const std::string narrow = "--weights int2 --num-samples 256 --improve none ";
  ASSERT_EQ(quantize(narrow), 0) << log();
  const int base = correct("test after:");
  std::vector<std::string> ranked;
  const Value errors = read_json(graph_folder() / "layerwise_error.json");
  for (const Value& node : *errors.get_if<List>()) {
    if (node.get_if<Table>()->contains("weight")) {
      ranked.push_back(*node.get_if<Table>()->find("node")->get_if<std::string>());
    }
  }
  ASSERT_EQ(ranked.size(), 5U);
  std::vector<int> won;
  for (const std::string& name : ranked) {
    ASSERT_EQ(quantize(narrow + "--bits " + name + "=8"), 0) << log();
    won.push_back(correct("test after:") - base);
  }
  int concordant = 0;
  for (size_t i = 0; i < won.size(); ++i) {
    for (size_t j = i + 1; j < won.size(); ++j) concordant += won[i] >= won[j] ? 1 : -1;
  }
  EXPECT_GE(concordant, 4) << "Kendall's rank correlation is at least 0.4: " << testing::PrintToString(won);
}

/// Better weights come first, as they take no bytes, and each line of advice gives what it says.
TEST_F(QuantizeCommand, AdviceReachesWhatItPromises) {
  const std::string samples = "--num-samples 256 ";
  const std::string narrow = samples + "--weights int2 ";
  ASSERT_EQ(quantize(narrow), 0) << log();
  const double before = sqnr_of_logits(log());
  const int base = correct("test after:");
  const std::vector<Promise> promised = promises(log());
  ASSERT_FALSE(promised.empty()) << log();
  EXPECT_THAT(promised.front().options, ContainsRegex("--improve gpta?q,bias_correction"));
  for (const Promise& promise : promised) {
    const bool has_width =
        promise.options.find("--weights") != std::string::npos;  // instead of what was given
    ASSERT_EQ(quantize((has_width ? samples : narrow) + promise.options), 0) << log();
    const double gain = sqnr_of_logits(log()) - before;
    EXPECT_NEAR(gain, promise.sqnr - before, 0.3 * gain) << promise.options;
    EXPECT_GT(correct("test after:"), base + 20) << promise.options;
  }
}

/// Below 8 bits biases are corrected without being asked for; at 8 nothing changes.
TEST_F(QuantizeCommand, CorrectsBiasesBelowEightBits) {
  const auto graph = [] { return read_file(graph_folder() / "graph_module.mz"); };
  ASSERT_EQ(quantize("--weights int2 --num-samples 256 --improve none"), 0) << log();
  EXPECT_THAT(log(), Not(HasSubstr("bias_correction: the biases")));
  const double uncorrected = sqnr_of_logits(log());
  ASSERT_EQ(quantize("--weights int2 --num-samples 256"), 0) << log();
  EXPECT_THAT(log(), AllOf(HasSubstr("improve = bias_correction"), HasSubstr("--improve none"),
                           HasSubstr("bias_correction: the biases of 5 nodes")));
  EXPECT_GT(sqnr_of_logits(log()), uncorrected + 1);
  for (const char* narrow : {"--activations uint4", "--bits fc=4", "--weights mx_e2m1"}) {
    ASSERT_EQ(quantize(std::string("--num-samples 64 ") + narrow), 0) << log();
    EXPECT_THAT(log(), HasSubstr("improve = bias_correction")) << narrow;
  }
  ASSERT_EQ(quantize("--num-samples 64"), 0) << log();
  EXPECT_THAT(log(), Not(HasSubstr("bias_correction")));
  const std::string eight = graph();
  ASSERT_EQ(quantize("--num-samples 64 --improve none"), 0) << log();
  EXPECT_EQ(graph(), eight);
}

TEST_F(QuantizeCommand, WarnsOfALargeDrop) {
  ASSERT_EQ(quantize("--weights int2 --num-samples 64 --improve none"), 0) << log();
  EXPECT_THAT(log(),
              ContainsRegex("warning +the accuracy falls from 0\\.[0-9]+ to 0\\.[0-9]+, from [0-9]+ to "
                            "[0-9]+ of 360 right: try --improve gpta?q,bias_correction"));
  ASSERT_EQ(quantize("--num-samples 64"), 0) << log();
  EXPECT_THAT(log(), Not(HasSubstr("accuracy falls")));
}

/// An array of a dump, and what its index says of it.
struct Dumped {
  Tensor array;
  Table entry;
};

std::map<std::string, Dumped> read_dump(const fs::path& folder) {
  std::map<std::string, Dumped> arrays;
  const Value index = read_json(folder / "index.json");
  const auto add = [&](const std::string& name, const Value& entry) {
    const Table& table = *entry.get_if<Table>();
    const auto& file = *table.find("file")->get_if<std::string>();
    arrays[name] = {read_npy(folder / file).clone(), table};
  };
  for (const char* name : {"labels", "predictions", "logits"}) add(name, *index.get_if<Table>()->find(name));
  for (const Value& entry : *index.get_if<Table>()->find("nodes")->get_if<List>()) {
    add(*entry.get_if<Table>()->find("node")->get_if<std::string>(), entry);
  }
  return arrays;
}

int32_t integer_at(const Tensor& array, size_t i) {
  if (array.dtype() == DType::kUInt8) return array.values<uint8_t>()[i];
  if (array.dtype() == DType::kInt8) return array.values<int8_t>()[i];
  if (array.dtype() == DType::kInt16) return array.values<int16_t>()[i];
  return array.values<int32_t>()[i];
}

/// Integers of one scale, or of one a position of the last dimension.
std::vector<float> dequantized(const Dumped& dumped) {
  const Value& scale = *dumped.entry.find("scale");
  const auto zero_point = static_cast<int32_t>(*dumped.entry.find("zero_point")->get_if<int64_t>());
  const List scales = scale.is<List>() ? *scale.get_if<List>() : List{scale};
  std::vector<float> values;
  for (size_t i = 0; i < static_cast<size_t>(dumped.array.numel()); ++i) {
    const auto step = static_cast<float>(*scales[i % scales.size()].get_if<double>());
    values.push_back(static_cast<float>(integer_at(dumped.array, i) - zero_point) * step);
  }
  return values;
}

TEST_F(QuantizeCommand, DumpsBothEngines) {
  ASSERT_EQ(quantize("--activations uint6 --elementwise int10 --bits 'head_conv=4/int5'"), 0) << log();
  const std::string test = "detent test digits_cnn digits --load " +
                           (graph_folder() / "graph_module.mz").string() +
                           " --batch-size 7 --dump-nodes '.*' --dump-samples 20 ";
  ASSERT_EQ(run(test + "--dump values"), 0) << log();
  EXPECT_THAT(log(), HasSubstr("dump: 20 samples, logits and"));
  ASSERT_EQ(run(test + "--dump integers --engine integers --dump-as integers"), 0) << log();
  ASSERT_EQ(run(test + "--dump simulated --dump-as integers"), 0) << log();
  const auto values = read_dump(folder() / "values");
  const auto integers = read_dump(folder() / "integers");
  const auto simulated = read_dump(folder() / "simulated");
  ASSERT_GE(values.size(), 15U);
  EXPECT_EQ(values.at("x").array.shape(), (Shape{20, 1, 8, 8}));
  for (const auto& [name, dumped] : integers) {
    const Dumped& expected = values.at(name);
    if (!dumped.entry.contains("scale")) {
      EXPECT_TRUE(dumped.array.equals(expected.array)) << name;
      continue;
    }
    const auto real = expected.array.values<float>();
    EXPECT_TRUE(std::ranges::equal(dequantized(dumped), real)) << name;
    if (name == "fc") continue;  // sums are integer execution's
    EXPECT_TRUE(dumped.array.equals(simulated.at(name).array)) << name;
  }
  EXPECT_EQ(integers.at("add").array.dtype(), DType::kInt8) << "head_conv takes in five bits";
  EXPECT_EQ(integers.at("head_conv").array.dtype(), DType::kInt16) << "a mean takes in ten";
  EXPECT_EQ(integers.at("fc").array.dtype(), DType::kInt32) << "the sums that logits are computed of";
  EXPECT_EQ(integers.at("fc").entry.find("scale")->get_if<List>()->size(), 10U);
  EXPECT_FALSE(integers.at("logits").entry.contains("scale"));
  EXPECT_TRUE(values.at("fc").array.equals(values.at("logits").array));
}

TEST_F(QuantizeCommand, DumpsLogitsOfFloatNetworksAndRefusesTheRest) {
  const std::string test = "detent test digits_cnn digits --load digits.pt ";
  ASSERT_EQ(run(test + "--dump logits"), 0) << log();
  const auto dump = read_dump(folder() / "logits");
  EXPECT_EQ(dump.size(), 3U);
  EXPECT_EQ(dump.at("logits").array.shape(), (Shape{16, 10}));
  EXPECT_EQ(dump.at("labels").array.shape(), (Shape{16}));
  const auto refusal = [&](const std::string& options) {
    EXPECT_NE(run(test + options), 0) << options;
    return log();
  };
  EXPECT_THAT(refusal("--dump logits"), HasSubstr("holds a dump already: --overwrite replaces it"));
  write_file(folder() / "mine/notes.txt", "mine");
  EXPECT_THAT(refusal("--dump mine --overwrite"), HasSubstr("holds other files than a dump"));
  EXPECT_THAT(refusal("--dump new --dump-nodes stem_cnov"), HasSubstr("did you mean \"stem_conv\"?"));
  EXPECT_THAT(refusal("--dump new --dump-nodes fc --dump-as integers"),
              HasSubstr("none computes in integers"));
  EXPECT_THAT(refusal("--dump-nodes fc"), HasSubstr("name a folder"));
  EXPECT_FALSE(fs::exists(folder() / "new")) << "what is refused leaves nothing";
  ASSERT_EQ(run(test + "--dump logits --dump-nodes fc"), 1);
  ASSERT_EQ(run(test + "--dump logits --dump-nodes fc --overwrite --dump-samples 3"), 0) << log();
  EXPECT_EQ(read_dump(folder() / "logits").at("fc").array.shape(), (Shape{3, 10}));
  ASSERT_EQ(run(test + "--dump logits --overwrite"), 0) << log();
  EXPECT_FALSE(fs::exists(folder() / "logits/nodes/fc.npy")) << "of the dump before";
}

TEST_F(QuantizeCommand, RefusesWrongInput) {
  const auto refusal = [](const std::string& options) {
    EXPECT_NE(quantize(options), 0) << options;
    return log();
  };
  EXPECT_THAT(
      refusal("--weights int1"),
      HasSubstr("--weights: quantization \"int1\": format \"int1\": got 1 bits, expected at least 2"));
  EXPECT_THAT(refusal("--weights uint8"), HasSubstr("expected a signed type"));
  EXPECT_THAT(refusal("--calibrator best"), HasSubstr("--calibrator: unknown value \"best\""));
  EXPECT_THAT(refusal("--keep-float nothing"), HasSubstr("\"nothing\" matches no node"));
  EXPECT_THAT(refusal("--num-samples 0"), HasSubstr("--num-samples: got 0, expected at least 1"));
  EXPECT_THAT(refusal("--improve gptqq"), HasSubstr("--improve: unknown pass \"gptqq\""));
  EXPECT_THAT(refusal("--symmetric-activations true"), HasSubstr("expected signed types"));
  EXPECT_NE(run("detent quantize digits_cnn digits"), 0);
  EXPECT_THAT(log(), HasSubstr("needs a trained network: `detent quantize model.onnx`, or --load FILE"));
  EXPECT_NE(run("detent test digits_cnn digits --engine integers --load "
                "digits.pt"),
            0);
  EXPECT_THAT(log(), HasSubstr("is not quantized for integer execution"));
  EXPECT_NE(quantize("--weights int16 --activations uint16"), 0);
  EXPECT_THAT(log(), AllOf(HasSubstr("sums of output channel"), HasSubstr("beyond the 32 bits")));
}

}  // namespace
}  // namespace detent
