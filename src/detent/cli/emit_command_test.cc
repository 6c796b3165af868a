#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "detent/cli/program_for_test.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/files/temporary_file_test.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/builder.h"
#include "detent/graph_files/graph_file.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Graph small_network() {
  GraphBuilder builder("sums");
  Graph graph = builder.finish(builder.linear("fc", builder.input("x", {3}), 3, 2));
  Node& fc = graph.node("fc");
  float value = -1;
  for (float& weight : fc.find_parameter("weight")->tensor.values<float>()) weight = (value += 0.5F);
  fc.quantization["data_in_0"] = parse_quant_spec_text("fixed:width=4,frac_width=2");
  fc.quantization["weight"] = parse_quant_spec_text("fixed:width=4,frac_width=1");
  return graph;
}

class EmitCommand : public testing::Test {
 protected:
  EmitCommand() { write_graph(network_.get(), small_network()); }

  ProgramResult emit(std::vector<std::string> more) {
    std::vector<std::string> args = {"emit", "verilog", network_.get().string(), "-o",
                                     folder_.get().string()};
    args.insert(args.end(), more.begin(), more.end());
    return run_program(args);
  }

  TemporaryPath network_{"sums.mz"};
  TemporaryPath folder_{"design"};
};

TEST_F(EmitCommand, WritesADesignWithTheUsersSamples) {
  const TemporaryPath samples("x.npy");
  write_npy(samples.get(), Tensor::from<float>({2, 3}, std::vector<float>{0.25F, 0.5F, -9, 0, 1, 0.3F}));
  const ProgramResult result = emit({"--input", "x=" + samples.get().string(), "--latency", "0"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr("| fc    | sums    |"), HasSubstr("2 vectors of the data")));
  // Codes 1, 2, -8 and 0, 4, 1, the first in the lowest bits.
  EXPECT_EQ(read_file(folder_.get() / "x.hex"), "821\n140\n");
  EXPECT_THAT(read_file(folder_.get() / "sums.v"), HasSubstr("module sums ("));
  const Value report = read_json(folder_.get() / "report.json");
  EXPECT_EQ(*report.get_if<Table>()->find("latency"), Value(0));
}

TEST_F(EmitCommand, SaysWhatIsWrong) {
  EXPECT_THAT(emit({"--top", "wire"}).errors,
              HasSubstr("--top: got \"wire\", expected letters, digits and _"));
  EXPECT_THAT(emit({"--simulate", "verilatr"}).errors, HasSubstr("did you mean \"verilator\""));
  EXPECT_THAT(emit({"--dont-cares", "data"}).errors, HasSubstr("--dont-cares data: no data"));
  EXPECT_THAT(emit({"--input", "y=a.npy"}).errors, HasSubstr("unknown input \"y\""));
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  EXPECT_THAT(emit({"--simulate", "verilator"}).errors,
              HasSubstr("--simulate verilator: no program \"verilator\" is installed"));
  EXPECT_THAT(emit({"--synthesize"}).errors, HasSubstr("apt-get install yosys"));
  EXPECT_EQ(emit({}).status, 0);  // the rest works
  setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace detent
