// Trainings that are stopped, killed or run out of disk, as users run them: in processes of the program.

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/core/error.h"
#include "detent/core/reserved_port_for_test.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/files/safetensors.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

/// A run of the program in a process of its own.
class Process {
 public:
  Process(const Words& arguments, const fs::path& folder, const fs::path& log,
          const Words& environment = {}) {
    std::fflush(stdout);
    pid_ = fork();
    if (pid_ != 0) return;
    // A shell has its background processes ignore it, and their children inherit that.
    ::signal(SIGINT, SIG_DFL);
    Words words = {std::string(DETENT_BIN) + "/detent"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    for (const std::string& variable : environment) putenv(strdup(variable.c_str()));
    const bool redirected = chdir(folder.c_str()) == 0 && freopen(log.c_str(), "w", stdout) != nullptr &&
                            dup2(STDOUT_FILENO, STDERR_FILENO) >= 0;
    if (redirected) execv(pointers[0], pointers.data());
    _exit(99);
  }

  void send(int signal) const { kill(pid_, signal); }
  /// As a shell would see it.
  int exit_status() {
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  bool is_running() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
  }

 private:
  pid_t pid_ = 0;
};

class SurvivalTest : public testing::Test {
 protected:
  SurvivalTest() {
    folder_ = fs::temp_directory_path() / fmt::format("detent_survival_{}", getpid());
    fs::create_directories(folder_);
  }
  ~SurvivalTest() override { fs::remove_all(folder_); }

  /// Runs a shell command in the folder.
  int run(const std::string& command) const {
    const std::string line = fmt::format("cd {} && PATH={}:$PATH && ( {} ) > {} 2>&1 < /dev/null",
                                         folder_.string(), DETENT_BIN, command, log().string());
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  fs::path log() const { return folder_ / "log.txt"; }
  std::string output() const { return read_file(log()); }
  fs::path checkpoints(const std::string& project) const {
    return folder_ / "detent_output" / project / "software" / "training_ckpts";
  }
  std::string file(const std::string& project, const char* name) const {
    return read_file(checkpoints(project) / name);
  }

  /// Lines of metrics so far.
  int64_t lines(const std::string& project) const {
    const fs::path path = checkpoints(project) / "metrics.jsonl";
    if (!fs::exists(path)) return 0;
    const std::string text = read_file(path);
    return std::count(text.begin(), text.end(), '\n');
  }
  static void wait_until(const std::function<bool()>& condition, const Process& process) {
    while (!condition() && process.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(process.is_running());
  }

  /// The step in training_state.safetensors.
  int64_t saved_step(const std::string& project) const {
    const SafetensorsFile state = read_safetensors(checkpoints(project) / "training_state.safetensors");
    const Value progress = parse_json(state.metadata.at("progress"), "progress");
    return *progress.get_if<Table>()->find("global_step")->get_if<int64_t>();
  }

  void expect_same_networks(const std::string& a, const std::string& b) const {
    EXPECT_EQ(file(a, "last.ckpt"), file(b, "last.ckpt"));
    EXPECT_EQ(file(a, "best.ckpt"), file(b, "best.ckpt"));
  }

  /// The arguments of a training; those of `more` win.
  static Words training(const std::string& project, Words more = {}) {
    const std::vector<std::pair<std::string, std::string>> usual = {
        {"--batch-size", "32"},    {"--max-epochs", "8"},  {"--num-threads", "1"},
        {"--num-workers", "1"},    {"--project", project}, {"--log-every-n-steps", "1"},
        {"--worker-timeout", "60"}};
    Words words = {"train", "digits_cnn", "digits"};
    for (const auto& [flag, value] : usual) {
      if (std::ranges::find(more, flag) == more.end()) words.insert(words.end(), {flag, value});
    }
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  int train(const std::string& project, const Words& more = {}) const {
    return run(fmt::format("detent {}", fmt::join(training(project, more), " ")));
  }

  fs::path folder_;
};

TEST_F(SurvivalTest, GoesOnAfterASignalAsItSaysToTheSameBytes) {
  ASSERT_EQ(train("whole"), 0) << output();
  int64_t at_line = 10;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string project = fmt::format("it's {}", signal);  // a name that a shell must have quoted
    Process process(training(project), folder_, log());
    wait_until([&] { return lines(project) >= at_line; }, process);
    process.send(signal);
    EXPECT_EQ(process.exit_status(), 128 + signal) << output();
    EXPECT_THAT(output(),
                AllOf(HasSubstr(fmt::format("stopped by SIG{}", sigabbrev_np(signal))),
                      HasSubstr("all is saved; resume with\n  "), Not(HasSubstr("test (best epoch)"))));
    const int64_t step = saved_step(project);
    EXPECT_GE(step, at_line / 2);
    const std::string text = output();
    const size_t begin = text.find("resume with\n  ") + 14;
    ASSERT_EQ(run(text.substr(begin, text.find('\n', begin) - begin)), 0) << output();
    EXPECT_THAT(output(), HasSubstr(fmt::format("step {}\n", step)));
    EXPECT_THAT(output(), HasSubstr("test (best epoch)"));
    expect_same_networks("whole", project);
    EXPECT_EQ(lines(project), lines("whole"));
    at_line = signal == SIGINT ? 200 : 100;
  }
}

// Fifty times SIGKILL at random moments, most of them while files are being written.
TEST_F(SurvivalTest, AKillAtAnyMomentLeavesWholeCheckpoints) {
  ASSERT_EQ(train("whole"), 0) << output();
  std::mt19937 random(7);
  const fs::path state = checkpoints("killed") / "training_state.safetensors";
  int64_t step = 0;
  int64_t most_steps = 0;
  int leftovers = 0;
  for (int kills = 0; kills < 50;) {
    Words more = {"--checkpoint-every", "1"};
    if (fs::exists(state)) more.emplace_back("--resume");
    const int64_t lines_before = lines("killed");
    Process process(training("killed", more), folder_, log());
    // Every fifth time wherever it is, loading perhaps; else when it is training and saves at every step.
    if (kills % 5 != 0) {
      const auto trains = [&] { return lines("killed") > 0 && lines("killed") != lines_before; };
      const auto wait_for = [&](const auto& condition) {
        while (!condition() && process.is_running())
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
      };
      wait_for(trains);
      // In steps, not in time: a busy machine makes none in 40 ms.
      const int64_t wanted = lines("killed") + static_cast<int64_t>(random() % 4);
      wait_for([&] { return lines("killed") >= wanted; });
    }
    const unsigned most = kills % 5 == 0 ? 1'500'000U : 40'000U;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % most));
    process.send(SIGKILL);
    const int status = process.exit_status();
    if (status == 0) {  // it came to its end before; another one is killed on
      expect_same_networks("whole", "killed");
      fs::remove_all(folder_ / "detent_output" / "killed");
      step = 0;
      continue;
    }
    ASSERT_EQ(status, 128 + SIGKILL) << output();
    ++kills;
    if (!fs::exists(state)) continue;
    const int64_t now = saved_step("killed");
    EXPECT_GE(now, step);
    step = now;
    most_steps = std::max(most_steps, step);
    EXPECT_EQ(read_state_dict(checkpoints("killed") / "last.ckpt").size(),
              read_state_dict(checkpoints("whole") / "last.ckpt").size());
    for (const auto& entry : fs::directory_iterator(checkpoints("killed"))) {
      leftovers += entry.path().extension().string().size() == 7 ? 1 : 0;  // a dot and six letters
    }
  }
  EXPECT_GT(most_steps, 20);
  ASSERT_EQ(train("killed", fs::exists(state) ? Words{"--resume"} : Words()), 0) << output();
  expect_same_networks("whole", "killed");
  EXPECT_EQ(lines("killed"), lines("whole"));
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(checkpoints("killed")))
    names.insert(entry.path().filename().string());
  EXPECT_THAT(names, ElementsAre(".detent-outputs", "best.ckpt", "last.ckpt", "metrics.jsonl",
                                 "training_state.safetensors"));
  RecordProperty("unfinished_files", leftovers);
}

TEST_F(SurvivalTest, AFullDiskIsReportedAndTheLastStateStays) {
  // Files of at most 100 blocks of 1,024 bytes: a network fits, what training remembers besides does not.
  EXPECT_EQ(run("ulimit -f 100; detent train digits_cnn digits --max-epochs 2 --project full"), 1);
  EXPECT_THAT(output(),
              AllOf(HasSubstr("cannot write"), HasSubstr("training_state.safetensors: File too large")));
  EXPECT_FALSE(fs::exists(checkpoints("full") / "training_state.safetensors"));
  EXPECT_FALSE(read_state_dict(checkpoints("full") / "last.ckpt").empty());

  const std::string command =
      "detent train digits_cnn digits --max-epochs 100000 --learning-rate-schedule constant --project later ";
  ASSERT_EQ(run(command + "--max-time 1s"), 0) << output();
  EXPECT_THAT(output(), AllOf(HasSubstr("max_time is up "), HasSubstr("all is saved; resume with")));
  const std::string saved = file("later", "training_state.safetensors");
  EXPECT_EQ(run("ulimit -f 100; " + command + "--resume"), 1);
  EXPECT_EQ(file("later", "training_state.safetensors"), saved);
}

TEST_F(SurvivalTest, ALossThatIsNotFiniteIsReportedAndNothingIsSaved) {
  EXPECT_EQ(train("nan", {"--training-optimizer", "sgd", "--learning-rate", "1e12"}), 1);
  EXPECT_THAT(output(), AllOf(HasSubstr("in epoch 1, batch"), HasSubstr("(step "),
                              HasSubstr("the first node whose output is not finite is \"")));
  EXPECT_FALSE(fs::exists(checkpoints("nan") / "last.ckpt"));
  EXPECT_FALSE(fs::exists(checkpoints("nan") / "training_state.safetensors"));
}

TEST_F(SurvivalTest, ANetworkWithoutFiniteOutputsFailsItsTest) {
  ASSERT_EQ(train("trained", {"--max-epochs", "1"}), 0) << output();
  StateDict network = without_model_prefix(read_state_dict(checkpoints("trained") / "best.ckpt"));
  for (auto& [name, tensor] : network) {
    if (name != "block.bn2.running_var") continue;
    tensor = tensor.clone();  // the file is mapped
    tensor.values<float>()[0] = std::nanf("");
  }
  write_state_dict(folder_ / "broken.pt", network);
  EXPECT_EQ(run("detent test digits_cnn digits --load broken.pt --load-type pt"), 1);
  EXPECT_THAT(output(), AllOf(HasSubstr("error: the loss of graph \"digits_cnn\" on samples 0 to 127"),
                              HasSubstr("is nan: the first node whose output is not finite is \"block_bn2\""),
                              HasSubstr("whose running_var is not finite either")));
}

/// A terminal that is closed takes standard output and error away and sends SIGHUP.
TEST_F(SurvivalTest, SavesWhenItsTerminalIsClosed) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_TRUE(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
  const std::string name = ptsname(terminal);
  const Words arguments = training("closed", {"--max-epochs", "1000"});
  const pid_t child = fork();
  if (child == 0) {
    setsid();  // then the first terminal that is opened becomes the session's
    const int inside = open(name.c_str(), O_RDWR);
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(inside, descriptor);
    std::vector<std::string> words = {std::string(DETENT_BIN) + "/detent"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    close(terminal);
    if (chdir(folder_.c_str()) == 0) execv(pointers[0], pointers.data());
    _exit(99);
  }
  char text[4096];
  while (lines("closed") < 100 && read(terminal, text, sizeof(text)) > 0) continue;
  close(terminal);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGHUP);
  EXPECT_GE(saved_step("closed"), 90);
}

TEST_F(SurvivalTest, RefusesToGoOnWithOtherSettings) {
  EXPECT_EQ(train("settings", {"--resume"}), 1);
  EXPECT_THAT(output(),
              AllOf(HasSubstr("training_state.safetensors does not exist"), HasSubstr("--project")));
  const std::string command = "detent train --project settings ";
  const std::string rest = "--model toy --dataset toy_tiny --max-epochs 2 ";
  ASSERT_EQ(run(command + rest), 0) << output();
  const std::vector<std::pair<std::string, std::string>> changes = {
      {rest + "--batch-size 64", "batch_size = 128, got 64"},
      {rest + "--seed 5", "seed = 0, got 5"},
      {rest + "--learning-rate 0.5", "learning_rate = 0.001, got 0.5"},
      {"--model toy --dataset toy_tiny --max-epochs 3", "max_epochs = 2, got 3"},
      {"--model toy_tiny --dataset toy_tiny --max-epochs 2", "model = \"toy\", got \"toy_tiny\""},
      {"--model toy --dataset digits --max-epochs 2", "dataset = \"toy_tiny\", got \"digits\""}};
  for (const auto& [change, message] : changes) {
    EXPECT_EQ(run(command + change + " --resume"), 1) << change;
    EXPECT_THAT(output(), HasSubstr(message)) << change;
  }
  EXPECT_EQ(run(command + rest + "--resume --num-workers 2 --log-level debug --report-to tensorboard"), 0)
      << output();
  EXPECT_THAT(output(), HasSubstr("resumed after epoch 2, step 8"));
  run("printf cut > detent_output/settings/software/training_ckpts/training_state.safetensors");
  EXPECT_EQ(run(command + rest + "--resume"), 1);
  EXPECT_THAT(output(), HasSubstr("training_state.safetensors"));
}

TEST_F(SurvivalTest, TwoTrainingsDoNotShareAFolder) {
  const fs::path first_log = folder_ / "first.txt";
  Process first(training("shared", {"--max-epochs", "10000"}), folder_, first_log);
  wait_until([&] { return lines("shared") > 0; }, first);
  for (const Words& more : {Words{}, Words{"--overwrite"}, Words{"--resume"}}) {
    EXPECT_EQ(train("shared", more), 1);
    EXPECT_THAT(output(), HasSubstr("training_ckpts is being written by detent train (process "));
  }
  first.send(SIGKILL);
  first.exit_status();
  EXPECT_EQ(train("shared", {"--overwrite", "--max-epochs", "1"}), 0) << output();
}

TEST_F(SurvivalTest, ReplacesNoOtherTrainingUnlessToldTo) {
  const std::string command = "detent train toy toy_tiny --learning-rate-schedule constant --project kept ";
  ASSERT_EQ(run(command + "--max-epochs 3 --max-time 1000h"), 0) << output();
  const std::string network = file("kept", "best.ckpt");
  const std::string state = file("kept", "training_state.safetensors");
  const auto expect_refused = [&](const std::string& options, const std::string& why) {
    EXPECT_EQ(run(command + options), 1) << output();
    EXPECT_THAT(output(), AllOf(HasSubstr("detent_output/kept/software/training_ckpts"), HasSubstr(why),
                                HasSubstr("--project NAME"), HasSubstr("--overwrite")));
    EXPECT_EQ(file("kept", "best.ckpt"), network);
    EXPECT_EQ(file("kept", "training_state.safetensors"), state);
  };
  expect_refused("--max-epochs 3 --batch-size 64",
                 "holds a training, saved after epoch 3, step 12, with batch_size = 128, got 64: resume it "
                 "as it was begun (--resume)");
  expect_refused("--max-epochs 4", "holds this training, saved after epoch 3, step 12: resume it (--resume)");
  expect_refused("--max-epochs 2", "saved after epoch 3, step 12, and max_epochs is 2 now");
  // A command that gives the same again is repeated, as those of a tutorial are.
  EXPECT_EQ(run(command + "--max-epochs 3 --num-workers 2"), 0) << output();
  EXPECT_THAT(output(), HasSubstr("holds this training, completed after epoch 3, step 12: it is repeated"));
  EXPECT_EQ(file("kept", "best.ckpt"), network);
  EXPECT_EQ(run(command + "--max-epochs 2 --overwrite"), 0) << output();
  EXPECT_EQ(run(command + "--max-epochs 3 --overwrite --resume"), 0) << output();
  EXPECT_THAT(output(), HasSubstr("resumed after epoch 2, step 8"));
  run("printf cut > detent_output/kept/software/training_ckpts/training_state.safetensors");
  EXPECT_EQ(run(command + "--max-epochs 3"), 1);
  EXPECT_THAT(output(), AllOf(HasSubstr("training_state.safetensors"), HasSubstr("--overwrite")));
}

TEST_F(SurvivalTest, LoadsTheSameBatchesWithAnyNumberOfThreads) {
  for (const char* threads : {"0", "1", "4"}) {
    ASSERT_EQ(train(std::string("threads_") + threads, {"--max-epochs", "2", "--num-workers", threads}), 0)
        << output();
  }
  expect_same_networks("threads_0", "threads_1");
  expect_same_networks("threads_0", "threads_4");
}

/// Files of the split as MNIST's are: `count` images of random levels.
void write_images(const fs::path& folder, const std::string& split, uint8_t count) {
  std::mt19937 random(count);
  std::string images("\0\0\x08\x03\0\0\0\0\0\0\0\x1c\0\0\0\x1c", 16);
  std::string labels("\0\0\x08\x01\0\0\0\0", 8);
  images[7] = labels[7] = static_cast<char>(count);
  for (int i = 0; i < count; ++i) {
    for (int pixel = 0; pixel < 28 * 28; ++pixel) images += static_cast<char>(random() % 256);
    labels += static_cast<char>(random() % 10);
  }
  write_file(folder / (split + "-images-idx3-ubyte"), images);
  write_file(folder / (split + "-labels-idx1-ubyte"), labels);
}

TEST_F(SurvivalTest, TransformsImagesTheSameWithAnyNumberOfThreads) {
  write_images(folder_ / "data", "train", 120);
  write_images(folder_ / "data", "t10k", 20);
  const auto command = [](const std::string& project, const std::string& more) {
    return fmt::format(
        "detent train lenet5 mnist --data-dir data --max-epochs 2 --batch-size 10 --num-threads 1 "
        "--project {} {}",
        project, more);
  };
  const std::string transforms = "--random-crop --crop-padding 3 --horizontal-flip 0.5 ";
  ASSERT_EQ(run(command("plain", "")), 0) << output();
  for (const char* threads : {"0", "1", "4"}) {
    const std::string project = std::string("threads_") + threads;
    ASSERT_EQ(run(command(project, transforms + "--num-workers " + threads)), 0) << output();
    expect_same_networks("threads_0", project);
  }
  EXPECT_NE(file("plain", "last.ckpt"), file("threads_0", "last.ckpt"));
  EXPECT_EQ(run(command("threads_4", "--resume --random-crop --crop-padding 4 --horizontal-flip 0.5")), 1);
  EXPECT_THAT(output(), HasSubstr("crop_padding = 3, got 4"));
  EXPECT_EQ(run(command("crop", "--center-crop 29")), 1);
  EXPECT_THAT(output(), HasSubstr("center_crop: got 29, but the images are 28x28"));
}

TEST_F(SurvivalTest, ReportsToTensorBoard) {
  ASSERT_EQ(train("reported", {"--max-epochs", "1", "--report-to", "tensorboard"}), 0) << output();
  const std::string events =
      read_file(folder_ / "detent_output/reported/software/tensorboard/events.out.tfevents.0.detent");
  for (const char* text : {"brain.Event:2", "train/loss", "validation/accuracy", "train/learning_rate"})
    EXPECT_THAT(events, HasSubstr(text));
  EXPECT_EQ(run("detent train toy toy_tiny --report-to wandb"), 2);
  EXPECT_THAT(output(), HasSubstr("--report-to: unknown value \"wandb\""));
}

TEST_F(SurvivalTest, ReadsParameterGroupsFromTheConfiguration) {
  write_file(folder_ / "groups.toml",
             "model = \"toy\"\ndataset = \"toy_tiny\"\nmax_epochs = 1\n[parameter_groups.'.*bias']\n"
             "weight_decay = 0\nlearning_rate = 0\n");
  ASSERT_EQ(run("detent train --config groups.toml --project groups"), 0) << output();
  EXPECT_THAT(output(), HasSubstr(".*bias"));
  write_file(folder_ / "groups.toml",
             "model = \"toy\"\ndataset = \"toy_tiny\"\n[parameter_groups.'none']\nweight_decay = 0\n");
  EXPECT_EQ(run("detent train --config groups.toml"), 1);
  EXPECT_THAT(output(), HasSubstr("\"none\" is the first to match no parameter"));
}

TEST_F(SurvivalTest, ASignalAtOneWorkerStopsAllAtTheSameStep) {
  int port = reserved_port_for_test();
  const auto start = [&](const std::string& project, int rank, const Words& more = {}) {
    const Words environment = {fmt::format("RANK={}", rank), "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                               fmt::format("MASTER_PORT={}", port)};
    return Process(training(project, more), folder_, folder_ / fmt::format("worker_{}.txt", rank),
                   environment);
  };
  const auto finish = [&](const std::string& project, const Words& more = {}) {
    Process first = start(project, 0, more);
    Process second = start(project, 1, more);
    EXPECT_EQ(first.exit_status(), 0) << read_file(folder_ / "worker_0.txt");
    EXPECT_EQ(second.exit_status(), 0) << read_file(folder_ / "worker_1.txt");
    port = reserved_port_for_test();
  };
  finish("whole");
  Process first = start("part", 0);
  Process second = start("part", 1);
  wait_until([&] { return lines("part") >= 40; }, first);
  second.send(SIGINT);
  EXPECT_EQ(first.exit_status(), 130);
  EXPECT_EQ(second.exit_status(), 130);
  port = reserved_port_for_test();
  EXPECT_THAT(read_file(folder_ / "worker_0.txt"), HasSubstr("in each process, resume with"));
  finish("part", {"--resume"});
  expect_same_networks("whole", "part");
}

}  // namespace
}  // namespace detent
