// `detent search` as its users run it.

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/value.h"
#include "detent/io/file.h"
#include "detent/io/graph_file.h"
#include "detent/io/json.h"
#include "program_in_folder_for_test.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class SearchCommand : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder() = fs::temp_directory_path() / fmt::format("detent_search_{}", getpid());
    fs::create_directories(folder());
    ASSERT_EQ(run("detent train digits_cnn digits --max-epochs 8 --batch-size 32 --learning-rate 0.01 "
                  "--project trained"),
              0)
        << log();
  }
  static void TearDownTestSuite() { fs::remove_all(folder()); }

  static fs::path& folder() {
    static fs::path path;
    return path;
  }
  /// The exit status; what is printed ends in `log`.
  static int run(const std::string& command) {
    return run_in(folder(), fmt::format("bash -c '{}'", command));
  }
  static std::string log() { return read_file(folder() / "log.txt"); }
  static std::string command(const std::string& options, const std::string& project) {
    return fmt::format(
        "detent search digits_cnn digits --load mase_output/trained/software/training_ckpts/best.ckpt "
        "--num-samples 64 --eval-samples 128 --project {} {}",
        project, options);
  }
  static int search(const std::string& options, const std::string& project = "searched") {
    return run(command(options + " --overwrite", project));
  }
  static fs::path result(const std::string& project = "searched") {
    return folder() / "mase_output" / project / "software/search";
  }
  static Table report(const std::string& project = "searched") {
    return *read_json(result(project) / "search.json").get_if<Table>();
  }
  static const List& front(const Table& report) { return *report.find("front")->get_if<List>(); }
  static double number(const Value& value, std::initializer_list<const char*> keys) {
    const Value* at = &value;
    for (const char* key : keys) at = at->get_if<Table>()->find(key);
    double scratch = 0;
    return *at->number(scratch);
  }
  /// All files of the report are there and whole.
  static void expect_whole(const std::string& project) {
    const Table found = report(project);
    ASSERT_FALSE(front(found).empty());
    for (const Value& point : front(found))
      read_graph(result(project) / *point.get_if<Table>()->find("file")->get_if<std::string>());
    read_graph(result(project) / "best.mz");
  }
  static std::map<std::string, std::string> files(const std::string& project) {
    std::map<std::string, std::string> contents;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(result(project))) {
      const std::string name = entry.path().lexically_relative(result(project)).string();
      // The journal of parts has what the first of them ended with, too.
      if (entry.is_regular_file() && name != "evaluations.jsonl") contents[name] = read_file(entry.path());
    }
    return contents;
  }
};

TEST_F(SearchCommand, FindsASmallerNetworkThatOtherCommandsTake) {
  ASSERT_EQ(search("--max-drop 1 --evaluations 30"), 0) << log();
  EXPECT_THAT(log(), AllOf(HasSubstr("what the smallest formats do"), HasSubstr("| best |"),
                           HasSubstr("at most 1 points below the float network, least bytes")));
  const Table found = report();
  EXPECT_EQ(*found.find("is_met"), Value(true)) << log();
  EXPECT_LE(number(found, {"evaluations"}), 30);
  double cost = 0;
  for (const Value& point : front(found)) {
    EXPECT_GT(number(point, {"costs", "bytes"}), cost);
    cost = number(point, {"costs", "bytes"});
    EXPECT_EQ(point.get_if<Table>()->find("formats")->get_if<Table>()->keys().size(), 7U)
        << "5 layers, the addition and the pooling";
  }
  EXPECT_FALSE(found.find("sensitivities")->get_if<List>()->empty());
  const std::string best = (result() / "best.mz").string();
  for (const std::string& other :
       {"detent test digits_cnn digits --load " + best,
        "detent test digits_cnn digits --engine fast --load " + best, "detent export " + best + " best.onnx",
        "detent bench --seconds 0.1 " + best})
    EXPECT_EQ(run(other), 0) << other << "\n" << log();
  expect_whole("searched");
}

TEST_F(SearchCommand, EveryStrategyGoesOnToTheSameResult) {
  for (const char* strategy : {"guided", "tpe", "nsga2"}) {
    const std::string options = fmt::format("--strategy {} --max-bytes 6k --winners 1 --seed 3", strategy);
    ASSERT_EQ(search(options + " --evaluations 26", "whole"), 0) << log();
    run(command(options + " --evaluations 26 --overwrite", "parts") + " & sleep 2; kill -TERM $!; wait $!");
    ASSERT_EQ(run(command(options + " --evaluations 26 --resume", "parts")), 0) << log();
    EXPECT_EQ(files("whole"), files("parts")) << strategy;
  }
  ASSERT_EQ(run(command("--strategy nsga2 --max-bytes 5k --seed 3 --resume", "parts")), 1);
  EXPECT_THAT(log(), HasSubstr("begun with other settings (max_bytes"));
  ASSERT_EQ(run(command("--max-bytes 6k", "parts")), 1);
  EXPECT_THAT(log(), HasSubstr("go on with it (--resume)"));
}

TEST_F(SearchCommand, ProcessesFindWhatOneFinds) {
  const std::string options = "--max-drop 1 --evaluations 20 --winners 1 --seed 5 --num-threads 1";
  ASSERT_EQ(search(options, "alone"), 0) << log();
  const std::string together = command(options + " --overwrite --worker-timeout 120", "together");
  const int port = 24000 + getpid() % 16000;
  const std::string workers = fmt::format("WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT={}", port);
  ASSERT_EQ(
      run(fmt::format("{0} RANK=1 {1} > second.txt 2>&1 & {0} RANK=0 {1} && wait $!", workers, together)), 0)
      << log() << read_file(folder() / "second.txt");
  EXPECT_EQ(files("alone"), files("together"));
}

TEST_F(SearchCommand, TriesEverythingOfASmallSpace) {
  ASSERT_EQ(search("--strategy brute_force --weights int8 --choices "
                   "\"fc:weight=int2|int4,stem_conv:weight=int3|int5|float\" "
                   "--quality sqnr --max-bits 32 --evaluations 100 --improve NA"),
            0)
      << log();
  EXPECT_THAT(log(), HasSubstr("nothing is left to try"));
  EXPECT_EQ(number(report(), {"evaluations"}), 6);
}

TEST_F(SearchCommand, AKilledSearchLeavesTheBestSoFar) {
  const std::string endless = command("--max-drop 1 --time 1h --overwrite", "killed");
  for (int kill = 0; kill < 4; ++kill) {
    const std::string line = kill == 0 ? endless : command("--max-drop 1 --time 1h --resume", "killed");
    const int wait_ms = 2500 + 370 * kill;
    run(fmt::format("{} > killed.txt 2>&1 & sleep {}; kill -KILL $!", line, wait_ms / 1000.0));
    if (fs::exists(result("killed") / "search.json")) expect_whole("killed");
  }
  ASSERT_TRUE(fs::exists(result("killed") / "search.json")) << read_file(folder() / "killed.txt");
  EXPECT_EQ(run(command("--max-drop 1 --time 8s --resume", "killed")), 0) << log();
  expect_whole("killed");
}

TEST_F(SearchCommand, ASignalAndTheTimeEndIt) {
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(search("--max-drop 1 --time 20s", "timed"), 0) << log();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_GE(seconds, 18);
  EXPECT_LE(seconds, 25) << "starting the program counts, which takes long where others compute";
  // Not SIGINT, which a shell has its background processes ignore.
  EXPECT_EQ(run(command("--max-drop 1 --time 1h --resume", "timed") +
                " & for i in $(seq 300); do grep -q searching, log.txt && break; sleep 0.2; done; "
                "kill -TERM $!; wait $!"),
            143)
      << log();
  EXPECT_THAT(log(), AllOf(HasSubstr("stopped by SIGTERM"), HasSubstr("--resume")));
  expect_whole("timed");
}

TEST_F(SearchCommand, SaysWhatToDo) {
  EXPECT_EQ(search("--max-bytes 100"), 1);
  EXPECT_THAT(log(), HasSubstr("max_bytes = 100, but with the smallest formats the weights take "));
  EXPECT_EQ(search("--max-bits 1.5"), 1);
  EXPECT_THAT(log(), HasSubstr("with the smallest formats a weight takes"));
  EXPECT_EQ(search("--weights int4"), 1);
  EXPECT_THAT(log(), HasSubstr("give some of them more, as --weights int3,int4,int8"));
  EXPECT_EQ(search("--choices fc:weight=uint4"), 1);
  EXPECT_THAT(log(), HasSubstr("weights are symmetric: int4 is meant for them"));
  EXPECT_EQ(search("--quality sqnr --max-drop 1"), 1);
  EXPECT_THAT(log(), HasSubstr("min_sqnr instead of max_drop"));
  EXPECT_EQ(search("--strategy brute_force --activations uint4,uint8 --elementwise uint4,uint8"), 1);
  EXPECT_THAT(log(), HasSubstr("give fewer formats, or another --strategy"));
  ASSERT_EQ(run("detent search digits_cnn digits"), 2);
  EXPECT_THAT(log(), HasSubstr("needs a trained network"));
}

}  // namespace
}  // namespace detent
