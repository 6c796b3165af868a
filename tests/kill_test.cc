// Commands that are killed at random system calls while they write: what they leave behind is the old result
// or the new one, or what the next command resumes from, and that removes all else that the dead have left.
// DETENT_KILLS sets how many there are in all (default 40).

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <re2/re2.h>

#include "detent/core/error.h"
#include "detent/core/reserved_port_for_test.h"
#include "detent/datasets/fetch.h"
#include "detent/datasets/http_server_for_test.h"
#include "detent/datasets/tar_for_test.h"
#include "detent/files/checksums.h"
#include "detent/files/file.h"
#include "detent/files/gzip_for_test.h"
#include "detent/files/safetensors.h"
#include "kill_cases.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

constexpr int kOtherTests = 4;  // besides those of the table, with as many kills

int kills() {
  const char* text = std::getenv("DETENT_KILLS");
  return text == nullptr ? 40 : std::atoi(text);
}

int kills_each() { return std::max(1, kills() / (static_cast<int>(kill_cases().size()) + kOtherTests)); }

KilledCommand program(const std::string& line) {
  std::istringstream words(line);
  return {.arguments = {std::istream_iterator<std::string>(words), {}}};
}

/// Results without what a clock measured.
std::string without_latencies(std::string text) {
  re2::RE2::GlobalReplace(&text, R"("latency_ms": [0-9.e+-]+)", "");
  re2::RE2::GlobalReplace(&text, R"([0-9.e+-]+\]})", "");  // the last number of a journal's line
  return text;
}

/// Contents that must be equal where a result is: of logs and comparisons, which hold times, and of the state
/// of a training, which holds their sizes, only a part.
std::string content_of(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::string bytes = read_file(path);
  if (name == "metrics.jsonl") return fmt::format("{} lines", std::ranges::count(bytes, '\n'));
  if (name.starts_with("events.")) return fmt::format("{} bytes", bytes.size());
  if (name.starts_with("comparison.")) return without_latencies(bytes);
  if (name != "training_state.safetensors") return bytes;
  std::string tensors;
  for (const auto& [tensor_name, tensor] : read_safetensors(path).tensors) {
    const auto values = tensor.bytes();
    tensors += tensor_name;
    tensors.append(reinterpret_cast<const char*>(values.data()), values.size());
  }
  return tensors;
}

using Snapshot = std::map<std::string, std::string>;

/// Names and contents of what is in a folder, or of a file, but for what temporary names stand for.
Snapshot snapshot(const fs::path& path) {
  if (fs::is_regular_file(path)) return {{path.filename().string(), content_of(path)}};
  Snapshot files;
  if (!fs::exists(path)) return files;
  for (auto entry = fs::recursive_directory_iterator(path); entry != fs::recursive_directory_iterator();
       ++entry) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(".detent-tmp-")) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file() && !name.ends_with(".part") && !name.ends_with(".detent-lock")) {
      files[entry->path().lexically_relative(path).string()] = content_of(entry->path());
    }
  }
  return files;
}

std::vector<std::string> leftovers(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".detent-tmp-") || name.ends_with(".detent-lock") || name.ends_with(".part"))
      names.push_back(entry.path().string());
  }
  return names;
}

/// Each call once, in random order, before any comes again.
class RandomCalls {
 public:
  int64_t next(int64_t count) {
    std::vector<int64_t>& left = left_[count];
    if (left.empty()) {
      left.resize(static_cast<size_t>(count));
      std::iota(left.begin(), left.end(), 1);
      std::ranges::shuffle(left, random_);
    }
    const int64_t call = left.back();
    left.pop_back();
    return call;
  }

 private:
  std::mt19937_64 random_{static_cast<uint64_t>(kills_each())};
  std::map<int64_t, std::vector<int64_t>> left_;
};

class KillSlowTest : public testing::Test {
 protected:
  KillSlowTest() {
    fs::create_directories(folder_);
    write_inputs_of_cases(folder_);
  }
  ~KillSlowTest() override {
    fmt::print("[  kills   ] {}: {} kills, of {} system calls that write\n", name_, killed_, calls_);
    std::fflush(stdout);
    fs::remove_all(folder_);
  }

  int64_t run(const KilledCommand& command) const { return run_to_end(command, folder_); }

  /// Kills the command, whose calls are counted, at one of them.
  void kill_once(const KilledCommand& command, int64_t calls) {
    calls_ = std::max(calls_, calls);
    if (run_until_call(command, folder_, random_.next(calls)) < 0) ++killed_;
  }

  Snapshot result(const std::string& name) const { return snapshot(folder_ / name); }

  /// Two commands that write the same result, in turn.
  void expect_one_or_the_other(const KilledCommand (&commands)[2], const std::string& name) {
    const bool folder_is_users = fs::exists(folder_ / name);
    Snapshot complete[2];
    int64_t calls[2];
    for (const int i : {1, 0}) {
      calls[i] = run(commands[i]);
      complete[i] = result(name);
      ASSERT_FALSE(complete[i].empty());
    }
    ASSERT_NE(complete[0], complete[1]);
    for (int i = 0; i < kills_each(); ++i) {
      if (i % 5 == 4) {
        fs::remove_all(folder_ / name);
        if (folder_is_users) fs::create_directories(folder_ / name);
      }
      const Snapshot before = result(name);
      kill_once(commands[i % 2], calls[i % 2]);
      const Snapshot left = result(name);
      ASSERT_TRUE(left == before || left == complete[i % 2]) << "a mixture after kill " << i;
      if (i % 4 != 3 && i + 1 < kills_each()) continue;
      run(commands[i / 4 % 2]);
      ASSERT_EQ(result(name), complete[i / 4 % 2]);
      ASSERT_THAT(leftovers(folder_), IsEmpty());
    }
  }

  /// The second command leaves all or none of the files that the first one wrote as they are.
  void expect_never_both(const KilledCommand (&commands)[2], const std::string& name) {
    const int64_t calls = run(commands[1]);
    const Snapshot after = result(name);
    for (int i = 0; i < kills_each(); ++i) {
      run(commands[0]);
      const Snapshot before = result(name);
      kill_once(commands[1], calls);
      Snapshot left = result(name);
      // Only the length of the one counts, which may be the same, and the names in the other are.
      left.erase("metrics.jsonl");
      left.erase(".detent-outputs");
      const auto kept = std::ranges::count_if(left, [&](const auto& file) {
        const auto old = before.find(file.first);
        return old != before.end() && old->second == file.second;
      });
      ASSERT_TRUE(kept == 0 || kept == std::ssize(left)) << "a mixture after kill " << i;
      run(commands[1]);
      ASSERT_EQ(result(name), after);
      ASSERT_THAT(leftovers(folder_), IsEmpty());
    }
  }

  /// A model and the weights that it names, by name, are both of one command.
  void expect_whole_pairs(const KilledCommand (&commands)[2], const std::string& name) {
    Snapshot complete[2];
    int64_t calls[2];
    for (const int i : {1, 0}) {
      fs::remove_all(folder_ / name);
      fs::create_directories(folder_ / name);
      calls[i] = run(commands[i]);
      complete[i] = result(name);
      ASSERT_EQ(complete[i].size(), 2U);
    }
    const auto holds = [](const Snapshot& files, const Snapshot& pair) {
      return std::ranges::includes(files, pair);
    };
    for (int i = 0; i < kills_each(); ++i) {
      const bool was_first = holds(result(name), complete[0]);
      kill_once(commands[i % 2], calls[i % 2]);
      const Snapshot left = result(name);
      ASSERT_TRUE(holds(left, complete[was_first ? 0 : 1]) || holds(left, complete[i % 2]))
          << "a mixture after kill " << i;
      if (i % 4 != 3 && i + 1 < kills_each()) continue;
      run(commands[i / 4 % 2]);
      ASSERT_TRUE(holds(result(name), complete[i / 4 % 2]));
      ASSERT_THAT(leftovers(folder_), IsEmpty());
    }
  }

  /// Each command fails, or is killed before, and all is as it was.
  void expect_refused(const std::vector<KilledCommand>& commands, const std::string& name) {
    const Snapshot before = result(name);
    for (int i = 0; i < std::max(kills_each(), static_cast<int>(commands.size())); ++i) {
      const KilledCommand& command = commands[static_cast<size_t>(i) % commands.size()];
      const std::string line = fmt::format("{}", fmt::join(command.arguments, " "));
      if (i < std::ssize(commands)) {
        EXPECT_THROW(run(command), Error) << line;
      } else {
        try {
          EXPECT_EQ(run_until_call(command, folder_, i / std::ssize(commands)), -1) << line;
          ++killed_;
        } catch (const Error&) {  // before the call
        }
      }
      ASSERT_EQ(result(name), before) << line;
    }
  }

  struct Resumable {
    std::function<KilledCommand()> start;
    std::string result;                            // a folder
    std::function<KilledCommand()> next = {};      // after a kill; empty: the same again
    std::vector<std::string> units = {};           // files and folders that change as a whole
    std::vector<KilledCommand> intermediate = {};  // end in what is seen of the units on the way
    std::function<void()> end_others = [] {};      // processes that work together with it
  };

  /// It is killed once or twice, and then resumed to the same end.
  void expect_goes_on(const Resumable& resumable) {
    const std::string& name = resumable.result;
    std::map<std::string, std::vector<Snapshot>> states;
    const auto see_units = [&] {
      for (const std::string& unit : resumable.units) states[unit].push_back(snapshot(folder_ / unit));
    };
    see_units();  // nothing
    for (const KilledCommand& command : resumable.intermediate) {
      run(command);
      see_units();
      fs::remove_all(folder_ / name);
    }
    const int64_t calls = run(resumable.start());
    resumable.end_others();
    see_units();
    const Snapshot whole = result(name);
    ASSERT_FALSE(whole.empty());
    for (int i = 0; i < kills_each(); i += 2) {
      fs::remove_all(folder_ / name);
      const std::function<KilledCommand()>& next = resumable.next ? resumable.next : resumable.start;
      for (int kill = i; kill < std::min(i + 2, kills_each()); ++kill) {
        kill_once(kill == i ? resumable.start() : next(), calls);
        resumable.end_others();
        for (const std::string& unit : resumable.units) {
          ASSERT_THAT(states[unit], testing::Contains(snapshot(folder_ / unit))) << unit << ", kill " << kill;
        }
      }
      run(next());
      resumable.end_others();
      ASSERT_EQ(result(name), whole);
      ASSERT_THAT(leftovers(folder_), IsEmpty());
    }
  }

  /// `command`, with --resume where a training was saved.
  std::string resuming(const std::string& command, const std::string& state) const {
    return command + (fs::exists(folder_ / state) ? " --resume" : "");
  }

  fs::path folder_ = fs::temp_directory_path() / fmt::format("detent_kill_test_{}", getpid());
  std::string name_ = testing::UnitTest::GetInstance()->current_test_info()->name();
  RandomCalls random_;
  int killed_ = 0;
  int64_t calls_ = 0;
};

class KillSlowCases : public KillSlowTest, public testing::WithParamInterface<KillCase> {};

TEST_P(KillSlowCases, KeepTheirContract) {
  const KillCase& tried = GetParam();
  for (const std::string& line : tried.prepare) run(program(line));
  std::vector<KilledCommand> commands;
  for (const std::string& line : tried.commands) commands.push_back(program(line));
  if (tried.contract == Contract::kOneOrTheOther) {
    expect_one_or_the_other({commands[0], commands[1]}, tried.result);
  } else if (tried.contract == Contract::kNeverBoth) {
    expect_never_both({commands[0], commands[1]}, tried.result);
  } else if (tried.contract == Contract::kWholePair) {
    expect_whole_pairs({commands[0], commands[1]}, tried.result);
  } else if (tried.contract == Contract::kRefused) {
    expect_refused(commands, tried.result);
  } else {
    Resumable resumable{
        .start = [&] { return commands.back(); }, .result = tried.result, .units = tried.units};
    resumable.intermediate.assign(commands.begin(), commands.end() - 1);
    if (!tried.state.empty()) {
      resumable.next = [&] { return program(resuming(tried.commands.back(), tried.state)); };
    }
    expect_goes_on(resumable);
  }
}

INSTANTIATE_TEST_SUITE_P(All, KillSlowCases, testing::ValuesIn(kill_cases()),
                         [](const auto& tried) { return tried.param.name; });

/// Two files, as such or in an archive, from a server on this machine or a folder.
class KillSlowFetch : public KillSlowTest {
 protected:
  KillSlowFetch() {
    write_file(folder_ / "published/images", images_);
    write_file(folder_ / "published/labels", labels_);
    write_file(folder_ / "published/all.tar.gz", archive_);
  }
  static PublishedFile published(const std::string& name, const std::string& content) {
    return {name, content.size(), digest(DigestKind::kMd5, std::as_bytes(std::span(content)))};
  }
  void expect_fetched(const PublishedDataset& dataset, const std::string& from) {
    const FetchOptions options{.from = from, .root = "data"};
    expect_goes_on(
        {.start = [&] { return KilledCommand{.function = [&] { fetch_dataset(dataset, options); }}; },
         .result = "data",
         .units = {"data/two/images", "data/two/labels"}});
  }

  std::string images_ = std::string(50'000, 'i');
  std::string labels_ = std::string(500, 'l');
  std::string archive_ =
      gzip_for_test(tar_member("images", images_) + tar_member("labels", labels_) + tar_end());
  HttpServer server_{[this](const HttpRequest& request) {
    return HttpReply{.body = read_file(folder_ / "published" / request.path.substr(1))};
  }};
  PublishedDataset files_{.name = "two",
                          .folder = "two",
                          .mirrors = {},
                          .files = {published("images", images_), published("labels", labels_)},
                          .archived = {}};
  PublishedDataset packed_{.name = "two",
                           .folder = "two",
                           .mirrors = {},
                           .files = {published("all.tar.gz", archive_)},
                           .archived = {{"images", images_.size()}, {"labels", labels_.size()}}};
};

TEST_F(KillSlowFetch, FetchesFiles) { expect_fetched(files_, server_.url()); }
TEST_F(KillSlowFetch, FetchesArchives) { expect_fetched(packed_, server_.url()); }
TEST_F(KillSlowFetch, CopiesFilesOfAFolder) { expect_fetched(files_, folder_ / "published"); }

/// The first of two workers is killed; the second ends by itself, and both are resumed.
class KillSlowWorkers : public KillSlowTest {
 protected:
  /// Starts the second; the first remains to be run.
  KilledCommand with_second(const std::string& line) {
    const std::string common =
        fmt::format("WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT={}", reserved_port_for_test());
    fs::remove(folder_ / "second_ended");
    const std::string second =
        fmt::format("cd {} && (RANK=1 {} {}/detent {} > second.txt 2>&1; > second_ended) &", folder_.string(),
                    common, DETENT_BIN, line);
    EXPECT_EQ(std::system(second.c_str()), 0);
    KilledCommand first = program(line);
    first.environment = program("RANK=0 " + common).arguments;
    return first;
  }
  void wait_for_second() {
    for (int i = 0; i < 9000 && !fs::exists(folder_ / "second_ended"); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_TRUE(fs::exists(folder_ / "second_ended")) << "the second worker waits for the first";
  }
};

TEST_F(KillSlowWorkers, GoOn) {
  const std::string line =
      "train toy toy_tiny --max-epochs 2 --checkpoint-every 3 --num-threads 1 --worker-timeout 30 --project "
      "p";
  const std::string files = "detent_output/p/software/training_ckpts";
  expect_goes_on({.start = [&] { return with_second(line); },
                  .result = files,
                  .next = [&] { return with_second(resuming(line, files + "/training_state.safetensors")); },
                  .end_others = [&] { wait_for_second(); }});
}

/// It takes long, and writes at the end: a kill in a hundred.
TEST_F(KillSlowTest, QuickstartLeavesOneResult) {
  const KilledCommand command = program("quickstart --output-dir q");
  if (kills() < 100) GTEST_SKIP() << "with DETENT_KILLS of at least 100";
  write_file(folder_ / "q/notes.txt", "mine");
  const Snapshot before = result("q");
  const int64_t calls = run(command);
  const Snapshot after = result("q");
  for (int i = 0; i < kills() / 100; ++i) {
    kill_once(command, calls);
    const Snapshot left = result("q");
    ASSERT_TRUE(left == before || left == after) << "a mixture after kill " << i;
  }
  run(command);
  EXPECT_EQ(result("q"), after);
  EXPECT_THAT(leftovers(folder_), IsEmpty());
}

}  // namespace
}  // namespace detent
