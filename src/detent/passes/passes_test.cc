#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error_of_for_test.h"
#include "detent/files/file.h"
#include "detent/files/toml.h"
#include "detent/graph/builder.h"
#include "detent/graph/mase_metadata.h"
#include "detent/models/model.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/passes/analysis/quantization_summary.h"
#include "detent/passes/mase_graph.h"
#include "detent/passes/pass.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

/// The sample i holds 4 i, 4 i + 1, 4 i + 2, 4 i + 3, but for a first value of `corrected` that is 0.
class NumberedSamples final : public CalibrationSet {
 public:
  explicit NumberedSamples(int64_t corrected = -1) : corrected_(corrected) {}
  int64_t size() const override { return 300; }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    Tensor batch(DType::kFloat32, {end - begin, 1, 2, 2});
    std::iota(batch.values<float>().begin(), batch.values<float>().end(), static_cast<float>(4 * begin));
    if (begin <= corrected_ && corrected_ < end) {
      batch.values<float>()[static_cast<size_t>(4 * (corrected_ - begin))] = 0;
    }
    return {batch};
  }
  uint64_t fingerprint() const override { return 1; }

 private:
  int64_t corrected_;
};

/// Three samples of one size, two of another, six of the first.
class SamplesOfTwoSizes final : public CalibrationSet {
 public:
  int64_t size() const override { return 11; }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    return {Tensor(DType::kFloat32, {end - begin, begin == 3 ? 5 : 4})};
  }
  int64_t same_size_end(int64_t begin, int64_t end) const override {
    for (const int64_t border : {3, 5})
      if (begin < border) return std::min<int64_t>(border, end);
    return end;
  }
  uint64_t fingerprint() const override { return 1; }
};

std::vector<std::pair<int64_t, int64_t>> batches_of_two_sizes(const Dimension& batch, int64_t samples) {
  GraphBuilder builder("any");
  const NodeInput x = builder.input("x", {DType::kFloat32, {batch, Dimension("t", 4)}});
  const Graph graph = builder.finish(builder.call("relu", {x}));
  std::vector<std::pair<int64_t, int64_t>> result;
  for (const auto& [begin, end] : calibration_batches(SamplesOfTwoSizes(), graph, samples, 4))
    result.emplace_back(begin, end);
  return result;
}

TEST(CalibrationBatches, AreOfOneSizeAndOfAsManyAsTheNetworkTakes) {
  EXPECT_THAT(batches_of_two_sizes(kBatchName, 11),
              ElementsAre(Pair(0, 3), Pair(3, 5), Pair(5, 9), Pair(9, 11)));
  EXPECT_THAT(batches_of_two_sizes(kBatchName, 100),
              ElementsAre(Pair(0, 3), Pair(3, 5), Pair(5, 9), Pair(9, 11)));
  EXPECT_THAT(batches_of_two_sizes(kBatchName, 4), ElementsAre(Pair(0, 3), Pair(3, 4)));
  EXPECT_THAT(batches_of_two_sizes(3, 11), ElementsAre(Pair(0, 3), Pair(5, 8), Pair(8, 11)));
  EXPECT_THAT(batches_of_two_sizes(3, 1), ElementsAre(Pair(0, 3))) << "one at least";
  EXPECT_THAT(error_of([] { batches_of_two_sizes(7, 11); }),
              HasSubstr("the network takes 7 samples at once"));
}

/// A folder of its own, what passes report, and a network that gives each node a constant tensor of ones.
class PassTest : public testing::Test, public Executor {
 protected:
  PassTest() {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    directory_ = fs::temp_directory_path() / fmt::format("detent_{}_{}", name, getpid());
    context_.output_dir = directory_;
    context_.report = [this](const std::string& text) { reported_ += text; };
    context_.warn = [this](const std::string& text) { warned_ += text + "\n"; };
    context_.executor = [this]() -> Executor& { return *this; };
    context_.open_calibration = [] { return std::make_unique<NumberedSamples>(); };
    context_.batch_size = 2;
  }
  ~PassTest() override { fs::remove_all(directory_); }

  class Ones : public Program {
   public:
    Ones(const Graph& graph, const PassTest& test) : graph_(graph), test_(test) {}
    std::vector<Tensor> run(std::span<const Tensor> inputs, const Observation& observation) const override {
      if (++test_.runs_ == test_.fail_in_run_) throw Error("killed");
      for (const Node& node : graph_.nodes()) {
        const auto show = [&](const std::string& operand) {
          if (observation.shows(node.name, operand)) observation.see(node, operand, inputs[0]);
        };
        if (node.op != "placeholder" && node.name != test_.unreached_) show("data_in_0");
        show("data_out_0");
      }
      return {inputs[0]};
    }

   private:
    const Graph graph_;
    const PassTest& test_;
  };

  std::unique_ptr<const Program> compile(const Graph& graph) const override {
    return std::make_unique<Ones>(graph, *this);
  }

  void run_passes(const std::string& toml) {
    run_pipeline(graph_, *parse_toml(toml, "t.toml").find("passes")->get_if<Table>(), "t.toml", context_);
  }

  std::string error_of(const std::string& toml) {
    return detent::error_of([&] { run_passes(toml); });
  }

  fs::path directory_;
  Graph graph_ = build_model("toy", {1, 2, 2}, 2);
  PassContext context_;
  std::string reported_;
  std::string warned_;
  mutable std::atomic<int> runs_ = 0;
  int fail_in_run_ = 0;
  std::string unreached_;  // node that gets no input
};

TEST_F(PassTest, RegistryIsSortedAndDocumented) {
  std::string previous;
  for (const PassInfo& pass : all_passes()) {
    EXPECT_LT(previous, pass.name);
    EXPECT_FALSE(pass.help.empty());
    previous = pass.name;
  }
}

TEST_F(PassTest, UnknownNamesFailBeforeAnythingRuns) {
  EXPECT_THAT(error_of("[passes.save_mase_graph]\n[passes.quantise]\n"),
              HasSubstr("t.toml, [passes.quantise]: unknown pass \"quantise\": did you mean \"quantize\"?"));
  EXPECT_FALSE(fs::exists(directory_));
  EXPECT_THAT(error_of("passes.quantize = 3"),
              HasSubstr("passes.quantize is 3 (an integer), expected a table"));
}

TEST_F(PassTest, FormatsAreShownWithoutLongLists) {
  Node node;
  node.quantization["data_in_0"] = parse_quant_spec_text("affine:scale=0.5,zero_point=-3");
  node.quantization["data_out_0"] = parse_quant_spec_text("block_fp:block_size=4x16");
  node.quantization["weight"] = parse_quant_spec_text("affine:granularity=channel,scale=1x2x3x4x5x6");
  EXPECT_EQ(operand_formats_text(node),
            "data_in_0=affine:scale=0.5,zero_point=-3 data_out_0=block_fp:block_size=4x16 "
            "weight=affine:scale=(6 numbers),granularity=channel");
}

TEST_F(PassTest, WrongOptionsFailBeforeAnythingRuns) {
  EXPECT_THAT(error_of("[passes.save_mase_graph]\n[passes.fuse_batch_norm]\ntolerance = 2.0\n"),
              HasSubstr("t.toml, [passes.fuse_batch_norm]: key \"tolerance\": got 2"));
  EXPECT_FALSE(fs::exists(directory_));
}

TEST_F(PassTest, MetadataIsThePublishedOne) {
  run_passes(
      "[passes.init_metadata]\n[passes.add_common_metadata]\n[passes.add_software_metadata]\n"
      "[passes.verify_common_metadata]\n[passes.save_node_meta_param]\n");
  const std::string written = read_file(directory_ / "save_node_meta_param" / "node_meta_param.toml");
  const std::string published =
      read_file(fs::path(DETENT_SOURCE_DIR) / "tests/data/stats_for_quantisation.toml");
  // Up to the first table of statistics the two files are equal, byte for byte.
  const size_t statistics = published.find("[seq_blocks_0.software.args");
  const std::string common = published.substr(0, published.find("[x.software"));
  EXPECT_EQ(written.substr(0, common.size()), common);
  EXPECT_GT(statistics, common.size());
}

TEST_F(PassTest, MetadataRoundTrips) {
  run_passes(
      "[passes.profile_statistics]\nby = \"type\"\ntarget_weight_nodes = [\"linear\"]\n"
      "[passes.profile_statistics.weight_statistics.mean]\n[passes.save_node_meta_param]\nsave_path = \"" +
      (directory_ / "m.toml").string() + "\"\n");
  const Graph before = graph_;
  for (Node& node : graph_.nodes()) node.statistics = {};
  run_passes("[passes.load_node_meta_param]\nload_path = \"" + (directory_ / "m.toml").string() + "\"\n");
  for (size_t i = 0; i < before.nodes().size(); ++i) {
    EXPECT_EQ(before.nodes()[i].statistics, graph_.nodes()[i].statistics) << before.nodes()[i].name;
  }
}

TEST_F(PassTest, LoadingMetadataOfAnotherGraphNamesTheNode) {
  const auto ignore = [](const std::string&) {};
  Table table = metadata_table(graph_);
  table.erase("view");
  EXPECT_THROW(load_metadata_table(graph_, table, "m.toml", ignore), Error);
  table = metadata_table(graph_);
  table["vieww"] = Table();
  try {
    load_metadata_table(graph_, table, "m.toml", ignore);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("m.toml: unknown node \"vieww\": did you mean \"view\"?"));
  }
  table = metadata_table(graph_);
  table.table("view").table("common").table("args").table("data_in_0")["size"] = "big";
  EXPECT_THROW(load_metadata_table(graph_, table, "m.toml", ignore), Error);
}

TEST_F(PassTest, LoadingMetadataNamesWhatTheGraphHasOtherwise) {
  Table table = metadata_table(graph_);
  table.table("view").table("common").table("args").table("data_in_0")["size"] = List{1, 9};
  std::vector<std::string> differences;
  load_metadata_table(graph_, table, "m.toml", [&](const std::string& text) { differences.push_back(text); });
  EXPECT_THAT(differences, ElementsAre(AllOf(HasSubstr("m.toml: node \"view\": \"data_in_0\" is"),
                                             HasSubstr("size = [1, 9]"), HasSubstr("size = [1, 1, 2, 2]"))));
}

TEST_F(PassTest, MetadataCannotBeOutOfDate) {
  run_passes("[passes.init_metadata]\n[passes.add_common_metadata]\n[passes.add_software_metadata]\n");
  graph_.node("seq_blocks_0").quantization["weight"] = parse_quant_spec_text("fixed:width=6,frac_width=3");
  const Table table = metadata_table(graph_);
  const Table& common = *table.find("seq_blocks_0")->get_if<Table>()->find("common")->get_if<Table>();
  EXPECT_THAT(value_text(common), HasSubstr("weight = {type = \"fixed\", precision = [6, 3"));
}

TEST_F(PassTest, ReportsShowEveryNode) {
  run_passes("[passes.init_metadata]\n[passes.add_common_metadata]\n[passes.report_graph]\nfile_name = \"" +
             (directory_ / "g.txt").string() +
             "\"\n[passes.report_node_type]\n[passes.report_node_shape]\n[passes.report_node_meta_param]"
             "\nwhich = [\"common\"]\n");
  EXPECT_THAT(reported_, HasSubstr("10802 trainable parameters"));
  EXPECT_THAT(reported_, HasSubstr("| call_module | seq_blocks_0 | linear "));
  EXPECT_THAT(reported_, HasSubstr("| seq_blocks_4 | weight     | [2, 100]"));
  EXPECT_THAT(reported_, HasSubstr("args.data_in_1"));
  EXPECT_TRUE(fs::exists(directory_ / "g.txt"));
  EXPECT_TRUE(fs::exists(directory_ / "report" / "node_meta_param.md"));
  EXPECT_THAT(error_of("[passes.report_node_meta_param]\nwhich = [\"sofware\"]"),
              HasSubstr("did you mean \"software\"?"));
}

TEST_F(PassTest, GraphsAreSavedAndLoaded) {
  graph_.node("seq_blocks_0").find_parameter("weight")->tensor.values<float>()[7] = 0.5F;
  run_passes(
      "[passes.add_common_metadata]\n[passes.quantize]\nby = \"type\"\n[passes.quantize.linear.config]\nname "
      "= \"fixed\"\n"
      "weight_width = 6\n[passes.save_mase_graph]\n");
  const Graph saved = graph_;
  graph_ = build_model("toy_tiny", {1, 2, 2}, 2);
  run_passes("[passes.load_mase_graph]\nload_dir = \"" + (directory_ / "saved_mase_graph").string() + "\"\n");
  EXPECT_EQ(graph_.node_names(), saved.node_names());
  EXPECT_EQ(graph_.node("seq_blocks_2").quantization, saved.node("seq_blocks_2").quantization);
  EXPECT_EQ(graph_.node("seq_blocks_0").find_parameter("weight")->tensor.values<float>()[7], 0.5F);
  EXPECT_TRUE(fs::exists(directory_ / "saved_mase_graph" / "state_dict.pt"));
  EXPECT_TRUE(fs::exists(directory_ / "saved_mase_graph" / "node_meta_param.toml"));
}

std::vector<std::string> quantized_operands(const Node& node) {
  std::vector<std::string> operands;
  for (const auto& [operand, spec] : node.quantization) operands.push_back(operand);
  return operands;
}

TEST_F(PassTest, QuantizeByType) {
  run_passes(R"([passes.quantize]
by = "type"
[passes.quantize.default.config]
name = "NA"
[passes.quantize.linear.config]
name = "integer"
data_in_width = 8
data_in_frac_width = 5
weight_width = 4
)");
  EXPECT_THAT(quantized_operands(graph_.node("seq_blocks_0")), ElementsAre("bias", "data_in_0", "weight"));
  EXPECT_THAT(quantized_operands(graph_.node("seq_blocks_1")), IsEmpty());
  const auto& spec = graph_.node("seq_blocks_4").quantization;
  EXPECT_EQ(quant_spec_text(spec.at("data_in_0")->spec), "fixed:frac_width=5");
  EXPECT_EQ(spec.at("bias"), spec.at("weight"));  // falls back to the weight's keys
  EXPECT_EQ(common_metadata(graph_.node("seq_blocks_4"), infer_shapes(graph_)).args.find("weight")->type,
            "fixed");
  EXPECT_THAT(reported_, HasSubstr("| linear        |     3 |       3 |         0 |"));
  EXPECT_THAT(read_file(directory_ / "quantize" / "quantize_histogram.csv"), HasSubstr("linear,3,3,0"));
  EXPECT_THAT(read_file(directory_ / "quantize" / "quantize_table.csv"), HasSubstr("seq_blocks_0"));
}

TEST_F(PassTest, SingleBlockSizesRunAlongWhatTheOperatorSumsOver) {
  run_passes(R"([passes.quantize]
by = "type"
[passes.quantize.linear.config]
name = "block_fp"
data_in_block_size = [16]
data_out_block_size = 8
weight_block_size = [4, 2]
)");
  const auto& spec = graph_.node("seq_blocks_0").quantization;
  EXPECT_EQ(quant_spec_text(spec.at("data_in_0")->spec), "block_fp:block_axis=-1");
  EXPECT_EQ(quant_spec_text(spec.at("data_out_0")->spec), "block_fp:block_size=8");
  EXPECT_EQ(quant_spec_text(spec.at("weight")->spec), "block_fp:block_size=4x2");
  EXPECT_EQ(quant_spec_text(spec.at("bias")->spec), "block_fp:block_size=4x2");
}

TEST_F(PassTest, NamesOfIntegerFormats) {
  run_passes(R"([passes.quantize]
by = "type"
[passes.quantize.linear.config]
name = "int8"
data_in_name = "uint8"
weight_name = "int4_g128"
bias_width = 8
)");
  const auto& spec = graph_.node("seq_blocks_0").quantization;
  EXPECT_EQ(quant_spec_text(spec.at("data_in_0")->spec), "affine:signed=false");
  EXPECT_EQ(quant_spec_text(spec.at("weight")->spec),
            "affine:width=4,symmetric=true,granularity=group,group_size=128");
  EXPECT_EQ(quant_spec_text(spec.at("bias")->spec), "affine:symmetric=true");
  const auto with = [&](const std::string& keys) {
    return error_of("[passes.quantize]\nby = \"name\"\n[passes.quantize.seq_blocks_0.config]\n" + keys);
  };
  EXPECT_THAT(with("name = \"itn8\"\n"), HasSubstr("did you mean \"int8\"?"));
  EXPECT_THAT(with("name = \"int8\"\nweight_width = 4\n"),
              HasSubstr("weight_*: key \"width\": got 4, but \"int8\" says 8"));
}

TEST_F(PassTest, BlocksOfActivationsDoNotSpanTheBatch) {
  const auto with = [&](const std::string& keys) {
    return error_of(
        "[passes.quantize]\nby = \"name\"\nrequantize = true\n[passes.quantize.seq_blocks_0.config]\nname = "
        "\"mx\"\n" +
        keys);
  };
  EXPECT_THAT(
      with("data_in_block_size = [-1, 16]\n"),
      HasSubstr(
          "node \"seq_blocks_0\": key \"data_in_0_block_size\": got the size -1 for the batch dimension"));
  EXPECT_THAT(with("data_out_block_size = [4, 16]\n"),
              HasSubstr("key \"data_out_0_block_size\": got the size 4"));
  EXPECT_EQ(with("data_in_block_size = [1, 16]\nweight_block_size = [-1, 16]\n"),
            with("data_in_block_size = 16\n"));
}

TEST_F(PassTest, QuantizeByNameAndBypass) {
  run_passes(R"([passes.quantize]
by = "name"
report = false
[passes.quantize.default.config]
name = "ternary"
data_in_scaling_factor = true
weight_scaling_factor = true
[passes.quantize.seq_blocks_0.config]
name = "NA"
[passes.quantize.seq_blocks_2.config]
name = "fixed"
weight_width = 4
[passes.quantize.seq_blocks_3.config]
name = "fixed"
bypass = true
data_in_width = 8
)" + std::string());
  EXPECT_THAT(reported_, IsEmpty());
  EXPECT_THAT(quantized_operands(graph_.node("seq_blocks_0")), IsEmpty());
  EXPECT_THAT(quantized_operands(graph_.node("seq_blocks_1")), ElementsAre("data_in_0"));
  EXPECT_THAT(quantized_operands(graph_.node("seq_blocks_3")), IsEmpty());
  EXPECT_THAT(quantized_operands(graph_.node("seq_blocks_4")), ElementsAre("bias", "data_in_0", "weight"));
}

TEST_F(PassTest, QuantizeOneOperandWithAnotherFormat) {
  run_passes(R"([passes.quantize]
by = "name"
[passes.quantize.seq_blocks_2.config]
name = "fixed"
data_in_width = 8
data_out_width = 6
weight_name = "binary"
bias_name = "NA"
)");
  const auto& specs = graph_.node("seq_blocks_2").quantization;
  EXPECT_THAT(quantized_operands(graph_.node("seq_blocks_2")),
              ElementsAre("data_in_0", "data_out_0", "weight"));
  EXPECT_EQ(quant_spec_text(specs.at("weight")->spec), "binary");
  EXPECT_EQ(quant_spec_text(specs.at("data_out_0")->spec), "fixed:width=6");
}

TEST_F(PassTest, QuantizeByRegularExpressionTakesTheFirstMatch) {
  run_passes(R"([passes.quantize]
by = "regex_name"
[passes.quantize."seq_blocks_[02]".config]
name = "fixed"
weight_width = 3
[passes.quantize."seq_blocks_[0-9]".config]
name = "fixed"
data_in_width = 5
)");
  EXPECT_THAT(quantized_operands(graph_.node("seq_blocks_0")), ElementsAre("bias", "weight"));
  EXPECT_THAT(quantized_operands(graph_.node("seq_blocks_1")), ElementsAre("data_in_0"));
}

TEST_F(PassTest, QuantizeSaysWhatIsWrong) {
  const auto by_name = [&](const std::string& rest) {
    return error_of("[passes.quantize]\nby = \"name\"\n" + rest);
  };
  EXPECT_THAT(error_of("[passes.quantize]\n"), HasSubstr("key \"by\" is missing"));
  EXPECT_THAT(error_of("[passes.quantize]\nby = \"tpye\"\n"), HasSubstr("did you mean \"type\"?"));
  EXPECT_THAT(by_name("reprot = true\n"), HasSubstr("did you mean \"report\"?"));
  EXPECT_THAT(by_name("[passes.quantize.seq_block_0.config]\nname = \"fixed\"\n"),
              HasSubstr("did you mean \"seq_blocks_"));
  EXPECT_THAT(by_name("[passes.quantize.seq_blocks_0.config]\nname = \"fxed\"\n"),
              HasSubstr("did you mean \"fixed\"?"));
  EXPECT_THAT(by_name("[passes.quantize.seq_blocks_0.config]\nname = \"fixed\"\nweight_widht = 3\n"),
              HasSubstr("did you mean \"width\"?"));
  EXPECT_THAT(by_name("[passes.quantize.seq_blocks_0.config]\nname = \"fixed\"\nwieght_width = 3\n"),
              HasSubstr("unknown key \"wieght_width\""));
  EXPECT_THAT(by_name("[passes.quantize.seq_blocks_0.config]\nname = \"fixed\"\nweight_width = 64\n"),
              HasSubstr("got 64"));
  EXPECT_THAT(by_name("[passes.quantize.seq_blocks_0.config]\nweight_width = 4\n"),
              HasSubstr("\"name\" is missing"));
  EXPECT_THAT(by_name("[passes.quantize.seq_blocks_0]\nname = \"fixed\"\n"),
              HasSubstr("expected a table \"config\""));
  EXPECT_THAT(by_name("[passes.quantize.seq_blocks_1.config]\nname = \"fixed\"\nweight_width = 4\n"),
              HasSubstr("keys weight_*: no selected node has such an operand"));
  EXPECT_THAT(by_name("[passes.quantize.view.config]\nname = \"fixed\"\ndata_in_width = 4\n"),
              HasSubstr("node \"view\" (view) cannot be quantized"));
  EXPECT_THAT(error_of("[passes.quantize]\nby = \"regex_name\"\n[passes.quantize.\"nothing.*\".config]\nname "
                       "= \"fixed\"\n"),
              HasSubstr("matches no node"));
  EXPECT_THAT(
      error_of("[passes.quantize]\nby = \"regex_name\"\n[passes.quantize.\"(\".config]\nname = \"fixed\"\n"),
      HasSubstr("no regular expression"));
  for (const Node& node : graph_.nodes()) EXPECT_THAT(quantized_operands(node), IsEmpty());
  EXPECT_THAT(
      error_of("[passes.quantize]\nby = \"type\"\n[passes.quantize.conv2d.config]\nname = \"fixed\"\n"),
      IsEmpty());
  EXPECT_THAT(warned_, HasSubstr("no node is of type \"conv2d\""));
}

TEST_F(PassTest, ProfileCountsWholeBatchesAndKeepsOperandsApart) {
  run_passes(R"([passes.init_metadata]
[passes.add_software_metadata]
[passes.profile_statistics]
by = "type"
target_weight_nodes = ["linear"]
target_activation_nodes = ["relu"]
num_samples = 3
[passes.profile_statistics.weight_statistics.range_min_max]
[passes.profile_statistics.activation_statistics.range_min_max]
)");
  EXPECT_THAT(reported_, HasSubstr("4 samples profiled (3 asked for, whole batches are taken)"));
  const auto& relu = graph_.node("seq_blocks_1").statistics.args;
  EXPECT_EQ(value_text(*relu.find("data_in_0")),
            "{range_min_max = {min = 0.0, max = 15.0, range = 15.0, count = 16}}");
  const auto& linear = graph_.node("seq_blocks_0").statistics.args;
  EXPECT_EQ(value_text(*linear.find("bias")),
            "{range_min_max = {min = 0.0, max = 0.0, range = 0.0, count = 100}}");
  EXPECT_EQ(linear.find("data_in_0"), nullptr);
}

constexpr const char* kProfileRelus = R"([passes.profile_statistics]
by = "regex_name"
target_activation_nodes = ["seq_blocks_[13]"]
num_samples = 300
[passes.profile_statistics.activation_statistics.range_quantile]
[passes.profile_statistics.activation_statistics.record]
[passes.profile_statistics.activation_statistics.variance_precise]
dims = []
)";

TEST_F(PassTest, ProfilesOutputsAndExactlyAsManySamples) {
  run_passes(
      "[passes.profile_statistics]\nby = \"regex_name\"\ntarget_activation_nodes = [\"seq_.*_1\"]\n"
      "profile_output_activation = true\nexact_num_samples = true\nnum_samples = 65\n"
      "[passes.profile_statistics.activation_statistics.range_min_max]\n");
  EXPECT_EQ(runs_, 2);  // of 64 samples and of one
  EXPECT_THAT(reported_, HasSubstr("65 samples profiled (65 asked for)"));
  const NodeStatistics& software = graph_.node("seq_blocks_1").statistics;
  for (const OperandMap<Table>* operands : {&software.args, &software.results}) {
    const Table& statistics = *operands->find(operands == &software.args ? "data_in_0" : "data_out_0");
    EXPECT_EQ(value_text(statistics),
              "{range_min_max = {min = 0.0, max = 259.0, range = 259.0, count = 260}}");
  }
}

TEST_F(PassTest, ProfileNamesWhatNoValueReached) {
  unreached_ = "seq_blocks_3";
  EXPECT_THAT(error_of(kProfileRelus), HasSubstr("no value reached seq_blocks_3.data_in_0 (allow_uncovered"));
  const std::string head = "[passes.profile_statistics]\n";
  std::string allowed = kProfileRelus;
  allowed.replace(0, head.size(), head + "allow_uncovered = true\n");
  EXPECT_THAT(error_of(allowed), IsEmpty());
  EXPECT_THAT(warned_, HasSubstr("no value reached seq_blocks_3.data_in_0: they have no statistics"));
  EXPECT_EQ(graph_.node("seq_blocks_1").statistics.args.find("data_in_0")->size(), 3U);
}

TEST_F(PassTest, ProfileDoesNotDependOnBatchesAndLoaders) {
  run_passes(kProfileRelus);
  const std::string expected = toml_text(metadata_table(graph_));
  for (const int64_t batch_size : {1, 7, 300}) {
    for (const int64_t loaders : {0, 1, 3}) {
      context_.batch_size = batch_size;
      context_.loader_threads = loaders;
      run_passes(kProfileRelus);
      EXPECT_EQ(toml_text(metadata_table(graph_)), expected) << batch_size << " " << loaders;
    }
  }
}

// 300 samples are 5 micro-batches.
TEST_F(PassTest, ProfileGoesOnWhereItWasKilled) {
  run_passes(kProfileRelus);
  const std::string expected = toml_text(metadata_table(graph_));
  context_.checkpoint_every = 2;
  runs_ = 0;
  fail_in_run_ = 4;
  EXPECT_EQ(error_of(kProfileRelus), "killed");
  const fs::path file = directory_ / "profile_statistics" / "progress_1_of_1.safetensors";
  EXPECT_TRUE(fs::exists(file));

  runs_ = 0;
  run_passes(kProfileRelus);
  EXPECT_EQ(runs_, 3);
  EXPECT_EQ(toml_text(metadata_table(graph_)), expected);
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(PassTest, ProfileDoesNotGoOnFromAnotherRunOrADamagedFile) {
  context_.checkpoint_every = 1;
  fail_in_run_ = 3;
  EXPECT_EQ(error_of(kProfileRelus), "killed");
  graph_.node("seq_blocks_0").find_parameter("weight")->tensor.values<float>()[0] += 1;
  runs_ = 0;
  EXPECT_EQ(error_of(kProfileRelus), "killed");
  EXPECT_THAT(warned_, HasSubstr("progress of another run"));

  const fs::path file = directory_ / "profile_statistics" / "progress_1_of_1.safetensors";
  std::string bytes = read_file(file);
  bytes[bytes.size() - 100] ^= 1;
  bytes[bytes.size() - 5000] ^= 1;
  write_file(file, bytes.substr(0, bytes.size() - 1));
  EXPECT_THAT(error_of(kProfileRelus), HasSubstr("progress_1_of_1.safetensors"));
}

TEST_F(PassTest, ProfileDoesNotGoOnOverInputsThatChanged) {
  context_.checkpoint_every = 1;
  fail_in_run_ = 3;
  EXPECT_EQ(error_of(kProfileRelus), "killed");
  // A corrected value of a sample that was seen, of the same file in the same order.
  context_.open_calibration = [] { return std::make_unique<NumberedSamples>(/*corrected=*/5); };
  runs_ = 0;
  fail_in_run_ = 0;
  run_passes(kProfileRelus);
  EXPECT_EQ(runs_, 5);
  EXPECT_THAT(warned_, HasSubstr("calibration samples have changed"));
}

TEST_F(PassTest, ProfileSaysWhatIsWrong) {
  const std::string head = "[passes.profile_statistics]\nby = \"name\"\n";
  EXPECT_THAT(error_of(head + "target_weight_nodes = [\"seq_blocks_9\"]\n"),
              HasSubstr("key \"target_weight_nodes\": unknown node"));
  EXPECT_THAT(
      error_of(head + "target_activation_nodes = "
                      "[\"seq_blocks_0\"]\n[passes.profile_statistics.activation_statistics.range_minmax]\n"),
      HasSubstr("did you mean \"range_min_max\"?"));
  EXPECT_THAT(error_of(head + "num_samples = 0\n"), HasSubstr("got 0"));
  EXPECT_THAT(error_of(head + "target_weight_nodes = [\"seq_blocks_0\"]\n"),
              HasSubstr("no statistic to collect"));
  EXPECT_THAT(error_of("[passes.profile_statistics]\nby = \"regex_name\"\ntarget_weight_nodes = [\"(\"]\n"),
              HasSubstr("no regular expression"));
  EXPECT_THAT(error_of("[passes.profile_statistics]\nby = \"regex_name\"\ntarget_weight_nodes = [\"fc\"]\n"),
              HasSubstr("no node's name matches \"fc\""));
  EXPECT_THAT(error_of(head + "weight_statistics = 1\n"), HasSubstr("expected a table of statistics"));
  EXPECT_THAT(error_of("[passes.profile_statistics]\nby = \"type\"\ntarget_weight_nodes = [\"liner\"]\n"),
              HasSubstr("did you mean \"linear\"?"));
  run_passes("[passes.profile_statistics]\nby = \"type\"\ntarget_weight_nodes = [\"conv2d\"]\n");
  EXPECT_THAT(warned_, HasSubstr("no node is of type \"conv2d\""));
  run_passes(
      "[passes.profile_statistics]\nby = \"type\"\ntarget_activation_nodes = [\"linear\"]\nnum_samples = "
      "1000\n"
      "[passes.profile_statistics.activation_statistics.range_min_max]\n");
  EXPECT_THAT(warned_, HasSubstr("there are only 300 samples"));
}

TEST_F(PassTest, AverageBitsCountWhatIsStored) {
  StorageBits bits = storage_bits(graph_);
  EXPECT_EQ(bits.weight_values, 10802);
  EXPECT_DOUBLE_EQ(bits.average_weight_bits(), 32);
  EXPECT_EQ(bits.activation_values, 4 + 100 + 100 + 100 + 100);
  run_passes(
      "[passes.quantize]\nby = \"type\"\n[passes.quantize.linear.config]\nname = \"ternary\"\n"
      "weight_scaling_factor = true\ndata_in_name = \"fixed\"\ndata_in_width = 8\nbias_name = "
      "\"NA\"\n[passes.calculate_avg_bits]\n");
  bits = storage_bits(graph_);
  EXPECT_EQ(bits.weight_bits,
            (400 + 10000 + 200) * 2 + 3 * 32 + 202 * 32);  // codes, a scale a tensor, biases
  EXPECT_EQ(bits.activation_bits, 204 * 8 + 200 * 32);
  EXPECT_THAT(reported_, HasSubstr("w_avg_bit"));
}

}  // namespace
}  // namespace detent
