// Any bytes as a saved graph: refused, or read as a graph that is the same after writing and reading it
// again.
#include <cstdlib>
#include <filesystem>

#include "detent/core/error.h"
#include "detent/graph/graph_parameters.h"
#include "detent/graph_files/graph_file.h"

#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const detent::MemoryFile file(data, size);
  try {
    const detent::Graph graph = detent::read_graph(file.path());
    const auto written =
        std::filesystem::temp_directory_path() / ("detent_mz_fuzz_" + std::to_string(getpid()));
    detent::write_graph(written, graph);
    if (network_fingerprint(detent::read_graph(written)) != network_fingerprint(graph)) std::abort();
  } catch (const detent::Error&) {
  }
  return 0;
}
