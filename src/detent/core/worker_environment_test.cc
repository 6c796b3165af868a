#include "detent/core/process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "detent/core/error.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(WorkerEnvironment, ReadsWhatLaunchersSet) {
  std::map<std::string, std::string> variables;
  const auto get = [&](const char* name) {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  };
  EXPECT_EQ(worker_environment(get), std::nullopt);
  variables = {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "1234"}};
  EXPECT_EQ(worker_environment(get), (WorkerEnvironment{2, 4, "node7", 1234}));
  variables["DETENT_WORKER_SECRET"] = "s";
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  variables["TORCHELASTIC_RESTART_COUNT"] = "2";
  EXPECT_EQ(worker_environment(get), (WorkerEnvironment{2, 4, "node7", 1234, "s", "2"}));
  variables = {{"RANK", "0"}, {"WORLD_SIZE", "1"}};
  EXPECT_EQ(worker_environment(get), std::nullopt);
  variables = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
  EXPECT_EQ(worker_environment(get), (WorkerEnvironment{1, 2, "127.0.0.1", 29500}));
  variables["PMIX_NAMESPACE"] = "job1";
  const int port = worker_environment(get)->port;
  EXPECT_TRUE(port >= 20000 && port < 40000) << port;
  variables["PMIX_NAMESPACE"] = "job2";
  EXPECT_NE(worker_environment(get)->port, port);
  EXPECT_EQ(worker_environment(get)->job, "job2");
}

TEST(WorkerEnvironment, NamesTheVariableThatIsWrong) {
  const auto expect = [](std::map<std::string, std::string> variables, const char* message) {
    const auto get = [&](const char* name) {
      const auto it = variables.find(name);
      return it == variables.end() ? nullptr : it->second.c_str();
    };
    EXPECT_THAT([&] { worker_environment(get); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  expect({{"RANK", "2"}}, "WORLD_SIZE is missing");
  expect({{"RANK", "4"}, {"WORLD_SIZE", "4"}}, "RANK: got \"4\", expected a number from 0 to 3");
  expect({{"RANK", "x"}, {"WORLD_SIZE", "4"}}, "RANK: got \"x\"");
  expect({{"RANK", "1"}, {"WORLD_SIZE", "4"}}, "MASTER_ADDR is missing");
  expect({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}},
         "MASTER_PORT: got \"70000\"");
  expect({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
         "4 workers on several machines");
}

}  // namespace
}  // namespace detent
