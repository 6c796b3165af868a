#include "detent/core/process_resources.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "detent/core/parallel.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

class ProcessorsTest : public testing::Test {
 protected:
  ProcessorsTest() { fs::create_directories(root_); }
  ~ProcessorsTest() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  int quota() const { return quota_processors(root_ / "self", root_); }

  const fs::path root_ = fs::path(testing::TempDir()) / fmt::format("detent_processors_{}", getpid());
};

TEST_F(ProcessorsTest, AQuotaOfVersion2IsRoundedUp) {
  EXPECT_EQ(quota(), 0) << "no control groups";
  write("self", "0::/pod/container\n");
  EXPECT_EQ(quota(), 0);
  write("pod/container/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 0);
  write("cpu.max", "250000 100000\n");
  EXPECT_EQ(quota(), 3);
  write("pod/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 1) << "the smallest on the way up";
}

TEST_F(ProcessorsTest, AQuotaOfVersion1IsOfItsController) {
  write("self", "5:memory:/a\n4:cpu,cpuacct:/docker/x\n3:cpuset:/\n1:name=systemd:/\n");
  write("cpuset/cpu.cfs_quota_us", "100000\n");
  write("cpu,cpuacct/docker/x/cpu.cfs_quota_us", "-1\n");
  write("cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0);
  write("cpu,cpuacct/docker/x/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(quota(), 4);
}

TEST_F(ProcessorsTest, NonsenseIsNoQuota) {
  write("self", "\n:\n0\n0::\n0::/x\n");
  for (const char* text : {"", "0 100000", "-5 100000", "nan 1", "100000 0", "100000"}) {
    write("x/cpu.max", text);
    EXPECT_EQ(quota(), 0) << text;
  }
  write("x/cpu.max", "1e300 1");
  EXPECT_EQ(quota(), 1 << 20);
}

TEST(Processors, MoreThreadsThanProcessorsAreNotUsed) {
  EXPECT_GE(processor_count(), 1);
  EXPECT_EQ(usable_thread_count(1), 1);
  EXPECT_EQ(usable_thread_count(processor_count()), processor_count());
  EXPECT_EQ(usable_thread_count(4096), std::min(4096, processor_count()));
}

}  // namespace
}  // namespace detent
