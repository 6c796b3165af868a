#include "detent/passes/pipeline.h"

#include <unistd.h>

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/files/file.h"
#include "detent/files/toml.h"
#include "detent/models/model.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

/// Message of the constructor; "" when it accepts.
std::string refusal(const Table& passes) {
  return detent::error_of([&] { const Pipeline pipeline(passes, "t.toml"); });
}
std::string refusal(const std::string& toml) {
  const Table table = parse_toml(toml, "t.toml");
  return refusal(*table.find("passes")->get_if<Table>());
}

/// The refusal of a pipeline that is accepted without a graph.
std::string refusal_of_graph(const Graph& graph, const std::string& toml) {
  const Table table = parse_toml(toml, "t.toml");
  const Pipeline pipeline(*table.find("passes")->get_if<Table>(), "t.toml");
  return detent::error_of([&] { pipeline.check(graph); });
}

Graph toy() { return build_model("toy", {1, 2, 2}, 2); }

Graph quantized_toy() {
  Graph graph = toy();
  graph.node("seq_blocks_0").quantization["weight"] = parse_quant_spec_text("fixed:width=4,frac_width=2");
  return graph;
}

/// The options that a pass does not work without.
Table needed_options(const PassInfo& pass) {
  Table options;
  for (const FieldDescription& option : pass.options) {
    if (option.name == "by") options["by"] = "type";
    if (option.name == "load_dir" || option.name == "load_path") options[option.name] = "/";
  }
  return options;
}

bool is_text(const FieldDescription& option) {
  return option.type.starts_with("string") || option.type == "list of string";
}

TEST(Pipeline, EveryPassRefusesWrongOptionsBeforeItRuns) {
  for (const PassInfo& pass : all_passes()) {
    const std::string where = fmt::format("t.toml, [passes.{}]", pass.name);
    const auto refusal_with = [&](const std::string& key, const Value& value) {
      Table options = needed_options(pass);
      options[key] = value;
      return refusal(Table{{pass.name, options}});
    };
    EXPECT_THAT(refusal(Table{{pass.name, needed_options(pass)}}), IsEmpty()) << pass.name;
    EXPECT_THAT(refusal_with("no_such_option", 1), AllOf(StartsWith(where), HasSubstr("no_such_option")));
    for (const FieldDescription& option : pass.options) {
      SCOPED_TRACE(pass.name + "." + option.name);
      const Value wrong = is_text(option) ? Value(3) : Value("no such value");
      EXPECT_THAT(refusal_with(option.name, wrong), AllOf(StartsWith(where), HasSubstr(option.name)));
      const bool whole = option.type.starts_with("integer");
      for (const double beyond : {option.allowed.low - 1, option.allowed.high * 2 + 1}) {
        if (!std::isfinite(beyond)) continue;
        const Value value = whole ? Value(static_cast<int64_t>(beyond)) : Value(beyond);
        EXPECT_THAT(refusal_with(option.name, value), AllOf(StartsWith(where), HasSubstr(option.name)));
      }
    }
  }
}

TEST(Pipeline, FindsWrongFormatsStatisticsAndPatternsBeforeAnythingRuns) {
  const std::string quantize = "[passes.quantize]\nby = \"type\"\n[passes.quantize.linear.config]\n";
  EXPECT_THAT(refusal(quantize + "name = \"fxed\"\n"), HasSubstr("did you mean \"fixed\"?"));
  EXPECT_THAT(refusal(quantize + "name = \"fixed\"\nweight_width = 64\n"), HasSubstr("got 64"));
  EXPECT_THAT(refusal("[passes.quantize]\nby = \"type\"\n[passes.quantize.liner.config]\nname = \"fixed\"\n"),
              HasSubstr("did you mean \"linear\"?"));
  EXPECT_THAT(
      refusal("[passes.quantize]\nby = \"regex_name\"\n[passes.quantize.\"(\".config]\nname = \"fixed\"\n"),
      HasSubstr("no regular expression"));
  EXPECT_THAT(refusal("[passes.profile_statistics]\nby = \"type\"\n"
                      "[passes.profile_statistics.activation_statistics.histogrm]\n"),
              HasSubstr("did you mean \"histogram\"?"));
  EXPECT_THAT(refusal("[passes.profile_statistics]\nby = \"regex_name\"\ntarget_weight_nodes = [\"(\"]\n"),
              HasSubstr("no regular expression"));
  EXPECT_THAT(refusal("[passes.static_quantize]\nkeep_float = [\"(\"]\n"),
              HasSubstr("no regular expression"));
  EXPECT_THAT(refusal("[passes.static_quantize]\n[passes.gptq]\npercdamp = -1\n"),
              HasSubstr("t.toml, [passes.gptq]: key \"percdamp\": got -1"));
  EXPECT_THAT(refusal("[passes.report_node_meta_param]\nwhich = [\"sofware\"]"),
              HasSubstr("did you mean \"software\"?"));
}

TEST(Pipeline, RefusesAnOrderThatUndoesWhatAPassDoes) {
  const auto in_order = [](const std::vector<std::string>& names) {
    Table passes;
    for (const std::string& name : names) passes[name] = needed_options(find_pass(name));
    return refusal(passes);
  };
  EXPECT_THAT(
      in_order({"static_quantize", "bias_correction", "gptq"}),
      HasSubstr(
          "t.toml: the pass \"gptq\" (rounding weights) stands after \"bias_correction\" (after rounding "
          "weights); the right order is static_quantize, gptq, bias_correction"));
  EXPECT_THAT(in_order({"gptq", "report_graph", "static_quantize", "fuse_batch_norm"}),
              HasSubstr("the right order is fuse_batch_norm, static_quantize, gptq"));
  EXPECT_THAT(in_order({"quantize", "equalize"}), HasSubstr("the right order is equalize, quantize"));
  EXPECT_THAT(in_order({"quantize", "smooth_quant"}), HasSubstr("the right order is smooth_quant, quantize"));
  EXPECT_THAT(in_order({"static_quantize", "gptq", "adaround"}),
              HasSubstr("the passes \"gptq\" and \"adaround\" both choose the weights"));
  EXPECT_THAT(in_order({"remove_dead_nodes", "fold_constants", "fuse_batch_norm", "equalize", "smooth_quant",
                        "static_quantize", "adaround", "bias_correction", "layerwise_error_analysis"}),
              IsEmpty());
  EXPECT_THAT(in_order({"gptq", "load_mase_graph", "adaround"}), IsEmpty()) << "another graph begins anew";
}

TEST(Pipeline, ChecksTheFilesThatOptionsName) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("detent_pipeline_{}", getpid());
  write_file(folder / "plain", "");
  const auto with = [&](const std::string& pass, const std::string& key, const std::string& file) {
    return fmt::format("[passes.{}]\n{} = \"{}\"\n", pass, key, (folder / file).string());
  };
  EXPECT_THAT(refusal(with("load_node_meta_param", "load_path", "none.toml")),
              AllOf(StartsWith("t.toml, [passes.load_node_meta_param]: key \"load_path\""),
                    HasSubstr("no such file")));
  EXPECT_THAT(refusal(with("load_mase_graph", "load_dir", "none")), HasSubstr("no such file"));
  EXPECT_THAT(refusal(with("save_node_meta_param", "save_path", "plain/x.toml")),
              HasSubstr("plain is no folder"));
  EXPECT_THAT(refusal(with("save_mase_graph", "save_dir", "plain/x")), HasSubstr("plain is no folder"));
  EXPECT_THAT(refusal(with("report_graph", "file_name", "plain/x")), HasSubstr("plain is no folder"));
  EXPECT_THAT(refusal(with("summarize_quantization", "save_dir", "plain")), HasSubstr("plain is no folder"));
  EXPECT_THAT(refusal(with("report_node_meta_param", "save_path", "plain/x")),
              HasSubstr("plain is no folder"));
  EXPECT_THAT(refusal(with("save_mase_graph", "save_dir", "g") + with("load_mase_graph", "load_dir", "g")),
              IsEmpty())
      << "what an earlier pass writes";
  EXPECT_THAT(refusal("[passes.save_node_meta_param]\n" + with("load_node_meta_param", "load_path", "m")),
              IsEmpty());
  EXPECT_FALSE(fs::exists(folder / "g")) << "checking writes nothing";
  fs::remove_all(folder);
}

TEST(Pipeline, FindsWhatDoesNotFitTheGraphBeforeAnythingRuns) {
  const auto quantize = [](const std::string& by, const std::string& key, const std::string& config) {
    return fmt::format(
        "[passes.report_graph]\n[passes.quantize]\nby = \"{}\"\n[passes.quantize.\"{}\".config]\n{}", by, key,
        config);
  };
  const std::string fixed = "name = \"fixed\"\nweight_width = 4\n";
  EXPECT_THAT(refusal_of_graph(toy(), quantize("name", "seq_block_0", fixed)),
              HasSubstr("did you mean \"seq_blocks_"));
  EXPECT_THAT(refusal_of_graph(toy(), quantize("regex_name", "fc.*", fixed)), HasSubstr("matches no node"));
  EXPECT_THAT(refusal_of_graph(toy(), quantize("name", "seq_blocks_1", fixed)),
              HasSubstr("no selected node has"));
  EXPECT_THAT(refusal_of_graph(toy(), "[passes.fuse_batch_norm]\n" + quantize("name", "seq_block_0", fixed)),
              HasSubstr("unknown node"))
      << "passes remove nodes, but add none";
  EXPECT_THAT(refusal_of_graph(toy(), "[passes.static_quantize]\nkeep_float = [\"fc\"]\n"),
              HasSubstr("matches no node"));
  EXPECT_THAT(refusal_of_graph(toy(), "[passes.smooth_quant]\nnodes = [\"seq_blocks_9\"]\n"),
              HasSubstr("unknown node"));
  EXPECT_THAT(
      refusal_of_graph(toy(), "[passes.profile_statistics]\nby = \"name\"\ntarget_weight_nodes = [\"fc\"]\n"),
      HasSubstr("unknown node"));
  for (const char* pass : {"gptq", "adaround", "bias_correction"}) {
    const std::string table = fmt::format("[passes.{}]\n", pass);
    EXPECT_THAT(refusal_of_graph(toy(), table), HasSubstr("let the pass quantize go before")) << pass;
    EXPECT_THAT(refusal_of_graph(quantized_toy(), table), IsEmpty()) << pass;
    EXPECT_THAT(refusal_of_graph(toy(), "[passes.static_quantize]\n" + table), IsEmpty()) << pass;
  }
  EXPECT_THAT(refusal_of_graph(quantized_toy(), "[passes.static_quantize]\n"),
              HasSubstr("node \"seq_blocks_0\" is quantized already"));
  EXPECT_THAT(refusal_of_graph(quantized_toy(), quantize("name", "seq_blocks_0", fixed)),
              HasSubstr("quantized already with other formats: \"seq_blocks_0\" (weight)"));
}

}  // namespace
}  // namespace detent
