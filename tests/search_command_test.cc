// `detent search` as its users run it.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/reserved_port_for_test.h"
#include "detent/core/value.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/graph/builder.h"
#include "detent/graph_files/graph_file.h"
#include "program_in_folder_for_test.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class SearchCommand : public TrainedDigits {
 protected:
  /// The exit status; what is printed ends in `log`.
  static int run(const std::string& command) {
    return run_in(folder(), fmt::format("bash -c '{}'", command));
  }
  static std::string command(const std::string& options, const std::string& project) {
    return fmt::format(
        "detent search digits_cnn digits --load digits.pt "
        "--num-samples 64 --eval-samples 128 --project {} {}",
        project, options);
  }
  static int search(const std::string& options, const std::string& project = "searched") {
    return run(command(options + " --overwrite", project));
  }
  static fs::path result(const std::string& project = "searched") {
    return folder() / "detent_output" / project / "software/search";
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
    fs::remove_all(folder() / "detent_output/parts");
    // Once 12 networks are evaluated.
    run(command(options + " --evaluations 26", "parts") +
        " & for i in $(seq 3000); do [ $(wc -l < detent_output/parts/software/search/evaluations.jsonl) -gt "
        "12 ] "
        "&& break; sleep 0.02; done; kill -TERM $!; wait $!");
    EXPECT_THAT(log(), HasSubstr("--resume"));
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
  const int port = reserved_port_for_test();
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
  const std::string measured = read_file(result() / "evaluations.jsonl");
  EXPECT_EQ(std::ranges::count(measured, '\n'), 6);
  EXPECT_GT(number(report(), {"evaluations"}), 4)
      << "the network of one width, and formats of the first layer";
  EXPECT_LT(number(report(), {"evaluations"}), 4.1) << "what comes before the last layer is run once";
}

/// Bytes and dB of the front.
std::vector<std::pair<double, double>> bytes_and_quality(const List& front) {
  std::vector<std::pair<double, double>> points;
  const auto number = [](const Value& value, const char* table, const char* key) {
    double scratch = 0;
    return *value.get_if<Table>()->find(table)->get_if<Table>()->find(key)->number(scratch);
  };
  for (const Value& point : front)
    points.emplace_back(number(point, "costs", "bytes"), number(point, "quality", "sqnr_db"));
  return points;
}

TEST_F(SearchCommand, BeatsRandomSearchWithAsManyEvaluations) {
  const std::string options =
      "--evaluations 40 --quality sqnr --max-bits 32 --improve NA --points 1000 --strategy ";
  ASSERT_EQ(search(options + "random", "random"), 0) << log();
  ASSERT_EQ(search(options + "guided", "guided"), 0) << log();
  EXPECT_LE(number(report("guided"), {"evaluations"}), 40);
  const auto random = bytes_and_quality(front(report("random")));
  const auto guided = bytes_and_quality(front(report("guided")));
  EXPECT_GT(guided.size(), 3 * random.size());
  const auto is_left = [&](const auto& point) {
    return std::ranges::none_of(guided, [&](const auto& other) {
      return other.first <= point.first && other.second >= point.second;
    });
  };
  // One in some hundred random networks is better than any that was measured near it.
  EXPECT_LE(std::ranges::count_if(random, is_left), 1);
}

TEST_F(SearchCommand, BoundsTheLatencyThatTheEngineHas) {
  ASSERT_EQ(search("--max-latency 10s --quality sqnr --evaluations 12 --improve NA", "fast"), 0) << log();
  const Table found = report("fast");
  EXPECT_EQ(*found.find("is_met"), Value(true));
  for (const Value& point : front(found)) {
    EXPECT_GT(number(point, {"costs", "latency_ms"}), 0);
    EXPECT_LT(number(point, {"costs", "latency_ms"}), 10'000);
  }
  expect_whole("fast");
  ASSERT_EQ(search("--max-latency 1us --quality sqnr --evaluations 12 --improve NA", "slow"), 0) << log();
  EXPECT_EQ(*report("slow").find("is_met"), Value(false));
  EXPECT_THAT(log(), AllOf(HasSubstr("at most 0.001 ms a sample"), HasSubstr("no network was found")));
  ASSERT_EQ(search("--max-drop 2 --cost latency --evaluations 12 --improve NA", "cost"), 0) << log();
  const Table by_latency = report("cost");
  double latency = 0;
  for (const Value& point : front(by_latency)) {
    EXPECT_GT(number(point, {"costs", "latency_ms"}), latency) << "by ascending cost";
    latency = number(point, {"costs", "latency_ms"});
  }
}

TEST_F(SearchCommand, AFullDiskLeavesTheBestSoFar) {
  if (run("unshare --map-root-user --mount mount -t tmpfs none /mnt") != 0)
    GTEST_SKIP() << "no file system of a few bytes can be mounted here";
  // Room for some networks of 10 kB, not for all points of a front.
  const fs::path disk = folder() / "detent_output/full";
  fs::create_directories(disk);
  const std::string searches = command("--max-drop 1 --points 40", "full");
  const std::string outside = (folder() / "kept").string();
  const std::string script = fmt::format(
      "mount -t tmpfs -o size=200k none {0} && ({1} --time 1h; echo status $?; cp -r {0}/software {2}; "
      "mount -o remount,size=10m {0} && {1} --resume --evaluations 60; echo status $?; "
      "cp -r {0}/software {2}_on)",
      disk.string(), searches, outside);
  write_file(folder() / "full.sh", script);
  ASSERT_EQ(run("unshare --map-root-user --mount bash full.sh"), 0) << log();
  EXPECT_THAT(log(),
              AllOf(HasSubstr("No space left on device"), HasSubstr("status 1"), HasSubstr("status 0")));
  for (const char* kept : {"kept", "kept_on"}) {
    const fs::path left = folder() / kept / "search";
    const Table found = *read_json(left / "search.json").get_if<Table>();
    ASSERT_FALSE(front(found).empty());
    for (const Value& point : front(found))
      read_graph(left / *point.get_if<Table>()->find("file")->get_if<std::string>());
    read_graph(left / "best.mz");
  }
}

/// Bytes of the best network, where it is good enough.
std::optional<double> bytes_of_best(const Table& report) {
  if (*report.find("is_met") != Value(true)) return std::nullopt;
  for (const Value& point : *report.find("front")->get_if<List>()) {
    double scratch = 0;
    if (*point.get_if<Table>()->find("file") == *report.find("best"))
      return *point.get_if<Table>()->find("costs")->get_if<Table>()->find("bytes")->number(scratch);
  }
  ADD_FAILURE() << "the best network is not on the front";
  return std::nullopt;
}

/// At random moments, DETENT_KILLS times (default 4).
TEST_F(SearchCommand, AKilledSearchLeavesTheBestSoFar) {
  const char* wanted = std::getenv("DETENT_KILLS");
  const int kills = wanted == nullptr ? 4 : std::atoi(wanted);
  std::mt19937_64 random(static_cast<uint64_t>(kills));
  std::optional<double> best;
  int killed_later = 0;
  for (int kill = 0; kill < kills; ++kill) {
    const bool goes_on = fs::exists(result("killed") / "evaluations.jsonl");
    // Most while it measures, however long it takes to begin; some before.
    const bool waits = kill % 5 != 4;
    const double seconds = static_cast<double>(random() % 2000) / 1000;
    const std::string line =
        command(fmt::format("--max-drop 1 --time 1h {}", goes_on ? "--resume" : "--overwrite"), "killed");
    run(
        fmt::format("{} > killed.txt 2>&1 & for i in $(seq {}); do grep -q searching, killed.txt && break; "
                    "sleep 0.1; done; sleep {}; kill -KILL $!",
                    line, waits ? 600 : 0, seconds));
    if (!fs::exists(result("killed") / "search.json")) {
      ASSERT_EQ(best, std::nullopt) << "it was there before kill " << kill;
      continue;
    }
    ++killed_later;
    ASSERT_NO_FATAL_FAILURE(expect_whole("killed")) << "kill " << kill;
    const std::optional<double> now = bytes_of_best(report("killed"));
    ASSERT_LE(now.value_or(HUGE_VAL), best.value_or(HUGE_VAL)) << "kill " << kill;
    best = now;
  }
  EXPECT_GT(2 * killed_later, kills) << read_file(folder() / "killed.txt");
  RecordProperty("killed_with_results", killed_later);
  EXPECT_EQ(run(command("--max-drop 1 --time 8s --resume", "killed")), 0) << log();
  expect_whole("killed");
}

TEST_F(SearchCommand, ASignalAndTheTimeEndIt) {
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(search("--max-drop 1 --time 8s", "timed"), 0) << log();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_GE(seconds, 6);
  EXPECT_LE(seconds, 13) << "starting the program counts, which takes long where others compute";
  // Not SIGINT, which a shell has its background processes ignore.
  EXPECT_EQ(run(command("--max-drop 1 --time 1h --resume", "timed") +
                " & for i in $(seq 300); do grep -q searching, log.txt && break; sleep 0.2; done; "
                "kill -TERM $!; wait $!"),
            143)
      << log();
  EXPECT_THAT(log(), AllOf(HasSubstr("stopped by SIGTERM"), HasSubstr("--resume")));
  expect_whole("timed");
}

/// Weights of one width, as good as passes make them, come before anything else, so even a short search finds
/// no worse network than quantizing to the width that fits does.
TEST_F(SearchCommand, BeginsWithTheWidthThatFits) {
  ASSERT_EQ(search("--max-bytes 6100 --evaluations 1", "short"), 0) << log();
  const Table found = report("short");
  EXPECT_EQ(*found.find("is_met"), Value(true)) << log();
  const auto best = std::ranges::find_if(front(found), [&](const Value& point) {
    return *point.get_if<Table>()->find("file") == *found.find("best");
  });
  ASSERT_NE(best, front(found).end());
  const Table& point = *best->get_if<Table>();
  EXPECT_EQ(*point.find("improved"), Value(true));
  const Table& formats = *point.find("formats")->get_if<Table>()->find("fc")->get_if<Table>();
  EXPECT_EQ(*formats.find("weight"), Value("int4"));
  EXPECT_THAT(log(), testing::Not(HasSubstr("far below")));
}

TEST_F(SearchCommand, SaysThatTheBestIsFarBelowFloat) {
  ASSERT_EQ(search("--max-bytes 3200 --weights int2,int8 --evaluations 2 --improve none", "bad"), 0) << log();
  EXPECT_THAT(log(),
              testing::ContainsRegex("warning +the best network is far below the one in float, accuracy "
                                     "0\\.[0-9]+ \\([0-9]+ of 128 right\\) instead of [01]\\.[0-9]+"));
}

void fill_with_noise(Tensor& tensor, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::ranges::generate(tensor.values<float>(), [&] { return normal(random); });
}

/// Samples of one size calibrate a network of any size.
TEST_F(SearchCommand, KeepsTheSizesThatTheNetworkLeavesOpen) {
  GraphBuilder builder("open");
  NodeInput x = builder.input("x", {DType::kFloat32, {kBatchName, 3, "height", "width"}});
  x = builder.call("relu", {builder.convolution("conv", x, 3, 4, {3, 3}, {{"padding", 1}})});
  x = builder.call("flatten", {builder.call("adaptive_avg_pool2d", {x}, {{"output_size", 1}})},
                   {{"start_dim", 1}});
  Graph graph = builder.finish(builder.linear("fc", x, 4, 2));
  std::mt19937 random(0);
  for (const char* layer : {"conv", "fc"})
    fill_with_noise(graph.node(layer).find_parameter("weight")->tensor, random);
  write_graph(folder() / "open.mz", graph);
  Tensor samples(DType::kFloat32, {48, 3, 8, 9});
  fill_with_noise(samples, random);
  write_npy(folder() / "samples.npy", samples);
  ASSERT_EQ(run("detent search open.mz --calibration samples.npy --num-samples 32 --eval-samples 16 "
                "--quality sqnr --max-bits 32 --evaluations 4 --winners 1 --project open --report open.html "
                "--overwrite"),
            0)
      << log();
  const TensorType expected{DType::kFloat32,
                            {kBatchName, 3, Dimension("height", 8), Dimension("width", 9)}};  // usually
  EXPECT_EQ(read_graph(result("open") / "best.mz").input_types().at("x"), expected);
  for (const fs::directory_entry& point : fs::directory_iterator(result("open") / "points"))
    EXPECT_EQ(read_graph(point.path()).input_types().at("x"), expected) << point.path();
  write_npy(folder() / "other.npy", Tensor(DType::kFloat32, {1, 3, 5, 20}));
  EXPECT_EQ(run("detent run detent_output/open/software/search/best.mz --input x=other.npy"), 0) << log();
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
  EXPECT_EQ(search("--quality sqnr --max-drop 1"), 2);
  EXPECT_THAT(log(), HasSubstr("min_sqnr instead of max_drop"));
  EXPECT_EQ(search("--strategy brute_force --activations uint4,uint8 --elementwise uint4,uint8"), 1);
  EXPECT_THAT(log(), HasSubstr("give fewer formats, or another --strategy"));
  ASSERT_EQ(run("detent search digits_cnn digits"), 2);
  EXPECT_THAT(log(), HasSubstr("needs a trained network"));
}

}  // namespace
}  // namespace detent
