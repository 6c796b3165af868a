// Several processes of the program that work together, as torchrun and mpirun start them.

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/core/reserved_port_for_test.h"
#include "detent/files/file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kProfile = R"(model = "toy"
dataset = "toy_tiny"
[passes.profile_statistics]
by = "regex_name"
target_weight_nodes = ["seq_blocks_0"]
target_activation_nodes = ["seq_.*"]
profile_output_activation = true
num_samples = 500
exact_num_samples = true
[passes.profile_statistics.weight_statistics.absmax]
[passes.profile_statistics.activation_statistics]
mean = {}
range_min_max = {dims = [0]}
range_quantile = {exact_values = 1000}
variance_precise = {}
average_range = {}
histogram = {}
kurtosis = {}
record = {}
[passes.report_graph]
[passes.save_node_meta_param]
save_path = "statistics.toml"
)";

constexpr int kMostSeconds = 240;  // for a command; the test has 600

/// Lines of the epochs and the test of a training.
std::string results(const std::string& log) {
  std::string lines;
  for (size_t at = log.find("epoch 1/"); at < log.size();) {
    const size_t end = log.find('\n', at);
    const std::string line = log.substr(at, end - at);
    lines += line.substr(0, line.find("  (best)")) + "\n";
    at = end + 1;
    if (line.starts_with("test")) return lines;
  }
  return lines;
}

class WorkersTest : public testing::Test {
 protected:
  WorkersTest() {
    folder_ = fs::temp_directory_path() / fmt::format("detent_workers_{}", getpid());
    fs::create_directories(folder_);
    write_file(folder_ / "profile.toml", kProfile);
  }
  ~WorkersTest() override { fs::remove_all(folder_); }

  /// Runs a shell command in the folder; standard output and error end in `log`.
  int run(const std::string& command, const std::string& log = "log.txt") const {
    const std::string line = fmt::format("cd {} && PATH={}:$PATH && ( {} ) > {} 2>&1 < /dev/null",
                                         folder_.string(), DETENT_BIN, command, log);
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  /// The same command in `count` processes; whether all ended well, and within a time that leaves the test
  /// some to say what they waited for.
  bool run_workers(int count, const std::string& command) const {
    const std::string environment =
        fmt::format("WORLD_SIZE={} MASTER_ADDR=127.0.0.1 MASTER_PORT={}", count, reserved_port_for_test());
    std::string script = "pids=; failed=0; ";
    for (int rank = 0; rank < count; ++rank) {
      script += fmt::format(
          "{{ RANK={0} {1} timeout {2} {3}; status=$?; [ $status != 124 ] || echo \"ran for {2} s\"; "
          "exit $status; }} > worker_{0}.txt 2>&1 & pids=\"$pids $!\"; ",
          rank, environment, kMostSeconds, command);
    }
    return run(script + "for pid in $pids; do wait $pid || failed=1; done; exit $failed") == 0;
  }

  std::string file(const std::string& name) const { return read_file(folder_ / name); }

  fs::path folder_;
};

TEST_F(WorkersTest, CalibrateToTheSameBytesHoweverManyThereAre) {
  ASSERT_EQ(run("detent transform --config profile.toml --project alone --num-threads 1"), 0)
      << file("log.txt");
  const std::string alone = file("statistics.toml");
  ASSERT_THAT(alone, HasSubstr("[seq_blocks_4.software.results.data_out_0.stat.record]"));
  fs::remove(folder_ / "statistics.toml");
  EXPECT_EQ(run("detent transform --config profile.toml --project two --num-threads 2 --batch-size 7 "
                "--num-workers 2"),
            0)
      << file("log.txt");
  EXPECT_EQ(file("statistics.toml"), alone);
  for (const int count : {2, 4}) {
    fs::remove(folder_ / "statistics.toml");
    ASSERT_TRUE(run_workers(
        count,
        fmt::format("detent transform --config profile.toml --project of_{} --worker-timeout 60", count)))
        << file("worker_0.txt") << file("worker_1.txt");
    EXPECT_EQ(file("statistics.toml"), alone) << count;
    EXPECT_THAT(file("worker_0.txt"), HasSubstr("500 samples profiled"));
    EXPECT_EQ(file("worker_1.txt"), "");
  }
}

/// As the README says; torchrun's own listener stands where the first worker's would, which takes the next
/// port.
TEST_F(WorkersTest, AreStartedByTorchrun) {
  if (run("torchrun --help") != 0) GTEST_SKIP() << "there is no torchrun";
  const std::string launch = fmt::format(
      "torchrun --no_python --nproc_per_node 2 --master_port {} -r 2 -t 2 ", reserved_port_for_test(true));
  // Debian 13's asks for libuv, and is built without.
  if (run(launch + "true") != 0) GTEST_SKIP() << "this torchrun cannot start anything: " << file("log.txt");
  EXPECT_EQ(run(launch + "detent transform --config profile.toml --project torchrun"), 0) << file("log.txt");
  EXPECT_THAT(file("log.txt"), HasSubstr("500 samples profiled"));
}

TEST_F(WorkersTest, TrainTheNetworkThatOneWouldTrain) {
  const std::string command = "detent train toy toy_tiny --max-epochs 3 --num-threads 1 --project ";
  ASSERT_EQ(run(command + "alone", "alone.txt"), 0) << file("alone.txt");
  ASSERT_TRUE(run_workers(3, command + "shared --worker-timeout 60"))
      << file("worker_0.txt") << file("worker_1.txt");
  EXPECT_EQ(results(file("worker_0.txt")), results(file("alone.txt")));
  EXPECT_THAT(results(file("alone.txt")), HasSubstr("test (best epoch): loss"));
  EXPECT_TRUE(fs::exists(folder_ / "detent_output/shared/software/training_ckpts/best.ckpt"));
}

/// Scales that the first steps collect are those of the whole batch, of which the last has one sample: two of
/// the workers have none.
TEST_F(WorkersTest, CollectTheScalesThatOneWouldCollect) {
  write_file(folder_ / "collect.toml", R"(model = "toy"
dataset = "toy_tiny"
[passes.prepare_qat]
quantizers = "int4_lsq"
num_samples = 64
collect_steps = 8
statistic = "percentile"
statistic_argument = 99
)");
  ASSERT_EQ(run("detent transform --config collect.toml --project collecting"), 0) << file("log.txt");
  const std::string command =
      "detent train toy toy_tiny --batch-size 73 --max-epochs 2 --num-threads 1 --load "
      "detent_output/collecting/software/transform/transformed_ckpt/graph_module.mz --project ";
  ASSERT_EQ(run(command + "alone", "alone.txt"), 0) << file("alone.txt");
  ASSERT_TRUE(run_workers(3, command + "shared --worker-timeout 60"))
      << file("worker_0.txt") << file("worker_1.txt");
  EXPECT_EQ(results(file("worker_0.txt")), results(file("alone.txt")));
  EXPECT_THAT(results(file("alone.txt")), HasSubstr("test (best epoch): loss"));
}

/// Batch norm takes the statistics of the whole batch, of which the last has one sample a worker.
TEST_F(WorkersTest, TrainBatchNormAsOneWould) {
  std::string rows;
  for (int i = 0; i < 131; ++i) rows += fmt::format("{},{},{},{}\n", i % 7, i % 11 - 5, i * i % 13, i % 3);
  for (const char* split : {"train.csv", "validation.csv", "test.csv"}) write_file(folder_ / split, rows);
  const std::string command =
      "detent train jsc_tiny csv --data-dir . --max-epochs 2 --num-threads 1 --project ";
  ASSERT_EQ(run(command + "alone", "alone.txt"), 0) << file("alone.txt");
  ASSERT_TRUE(run_workers(3, command + "shared --worker-timeout 60"))
      << file("worker_0.txt") << file("worker_1.txt");
  EXPECT_EQ(results(file("worker_0.txt")), results(file("alone.txt")));
  const auto state = [&](const char* project) {
    return read_state_dict(folder_ / "detent_output" / project / "software/training_ckpts/last.ckpt");
  };
  const auto alone = state("alone");
  const auto shared = state("shared");
  ASSERT_EQ(shared.size(), alone.size());
  for (size_t i = 0; i < alone.size(); ++i) {
    const auto& [key, tensor] = alone[i];
    ASSERT_EQ(shared[i].first, key);
    if (tensor.dtype() != DType::kFloat32) continue;
    for (int64_t k = 0; k < tensor.numel(); ++k) {
      const double expected = tensor.values<float>()[static_cast<size_t>(k)];
      EXPECT_NEAR(shared[i].second.values<float>()[static_cast<size_t>(k)], expected,
                  1e-4 * (1 + std::abs(expected)))
          << key;
    }
  }
}

/// 129 samples in batches of 128: the last has one, of which batch norm has no variance.
TEST_F(WorkersTest, LeaveOutABatchThatBatchNormCannotTrainOn) {
  std::string rows;
  for (int i = 0; i < 129; ++i) rows += fmt::format("{},{},{}\n", i % 7, i % 11 - 5, i % 3);
  for (const char* split : {"train.csv", "validation.csv", "test.csv"}) write_file(folder_ / split, rows);
  const std::string command = "detent train jsc_tiny csv --data-dir . --max-epochs 2 --num-threads 1 ";
  ASSERT_TRUE(run_workers(2, command + "--project jets --worker-timeout 60")) << file("worker_0.txt");
  EXPECT_THAT(file("worker_0.txt"),
              AllOf(HasSubstr("the last batch of each epoch, of 1 of 128 samples, is left out"),
                    HasSubstr("expected at least 2 samples")));
  for (const char* name : {"best.ckpt", "last.ckpt"}) {
    const fs::path checkpoints = folder_ / "detent_output/jets/software/training_ckpts";
    for (const auto& [key, tensor] : read_state_dict(checkpoints / name)) {
      if (tensor.dtype() != DType::kFloat32) continue;
      for (const float value : tensor.values<float>()) EXPECT_TRUE(std::isfinite(value)) << key;
    }
  }
  EXPECT_FALSE(run_workers(2, command + "--drop-last never --project never --worker-timeout 20"));
  EXPECT_THAT(file("worker_0.txt"), HasSubstr("drop_last: got never, but the last batch of an epoch has 1"));
}

TEST_F(WorkersTest, AWorkerThatFailsStopsTheOthers) {
  // The second worker gets a file that does not exist.
  const std::string command =
      "sh -c 'if [ $RANK = 1 ]; then exec detent test toy toy_tiny --load no_such_file --worker-timeout 3; "
      "fi; "
      "exec detent test toy toy_tiny --load net/transformed_ckpt --worker-timeout 3'";
  ASSERT_EQ(run("detent transform --config profile.toml --project alone && "
                "cp -r detent_output/alone/software/transform net"),
            0);
  EXPECT_FALSE(run_workers(2, command));
  EXPECT_THAT(file("worker_1.txt"), HasSubstr("no_such_file"));
  EXPECT_THAT(file("worker_0.txt"), AllOf(HasSubstr("worker 0 of 2"), HasSubstr("did another worker stop?")));
}

/// The command of worker 0 with something else for worker 1.
std::string differing(const std::string& first, const std::string& second) {
  return fmt::format("sh -c 'if [ $RANK = 1 ]; then exec {}; fi; exec {}'", second, first);
}

TEST_F(WorkersTest, RefuseToWorkWithDifferentSettingsDataOrNetworks) {
  const std::string train =
      "detent train toy toy_tiny --max-epochs 1 --num-threads 1 --project shared --worker-timeout 30";
  const auto refused = [&](const std::string& second) {
    EXPECT_FALSE(run_workers(2, differing(train, second))) << second;
    EXPECT_EQ(file("worker_0.txt").substr(file("worker_0.txt").find("detent: ")),
              file("worker_1.txt").substr(file("worker_1.txt").find("detent: ")));
    return file("worker_1.txt");
  };
  EXPECT_THAT(refused(train + " --seed 1"), HasSubstr("seed is 0 at worker 0, 1 at worker 1"));
  EXPECT_THAT(refused(train + " --learning-rate 0.5"), HasSubstr("learning_rate is 0.001 at worker 0, 0.5"));
  EXPECT_THAT(refused("detent train mnist_cnn digits --worker-timeout 30"),
              HasSubstr("model is \"toy\" at worker 0, \"mnist_cnn\""));
  EXPECT_THAT(refused("detent transform --config profile.toml --worker-timeout 30"),
              HasSubstr("at worker 1"));
  EXPECT_FALSE(fs::exists(folder_ / "detent_output"));

  // The same words, but other files after them.
  for (const char* name : {"a", "b"}) fs::create_directories(folder_ / name);
  for (const char* split : {"train.csv", "validation.csv", "test.csv"}) {
    std::string rows;
    for (int i = 0; i < 40; ++i) rows += fmt::format("{},0,0,1,{}\n", i, i % 2);
    write_file(folder_ / "a" / split, rows);
    if (split == std::string("train.csv")) rows[0] = '7';
    write_file(folder_ / "b" / split, rows);
  }
  const std::string csv =
      "detent train toy_tiny csv --max-epochs 1 --num-threads 1 --worker-timeout 30 --data-dir ";
  EXPECT_FALSE(run_workers(2, differing(csv + "a", csv + "b")));
  EXPECT_THAT(file("worker_0.txt"), HasSubstr("the fingerprint of the training samples is"));
}

TEST_F(WorkersTest, SaysWhatALauncherLeftOut) {
  EXPECT_EQ(run("RANK=1 detent train toy toy_tiny"), 1);
  EXPECT_THAT(file("log.txt"), HasSubstr("WORLD_SIZE is missing"));
}

}  // namespace
}  // namespace detent
