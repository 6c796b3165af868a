// Checkpoints of others: each file of the published data that PyTorch wrote loads, to what Python loads.
#include <gtest/gtest.h>

#include <set>

#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/checkpoints/torch_python_for_test.h"
#include "detent/datasets/published_data_for_test.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> published_checkpoints() {
  const auto root = published_data({"checkpoints"});
  if (!root) return {};
  const std::set<std::string> endings = {".pt", ".pth", ".th", ".ckpt"};
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(*root)) {
    if (endings.contains(entry.path().extension().string())) files.push_back(entry.path());
  }
  return files;
}

TEST_F(TorchPython, LoadsPublishedCheckpoints) {
  const std::vector<fs::path> files = published_checkpoints();
  if (files.empty()) GTEST_SKIP() << "no published checkpoints in $DETENT_DATA or ../shared/data";
  for (const fs::path& file : files) {
    const StateDict state = read_state_dict(file);
    EXPECT_FALSE(state.empty()) << file;
    EXPECT_EQ(dump(state), run("state = torch.load('" + file.string() +
                               "', map_location='cpu')\n"
                               "dump(state.get('state_dict', state))\n"))
        << file;
  }
}

}  // namespace
}  // namespace detent
