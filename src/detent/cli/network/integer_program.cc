#include "detent/cli/network/integer_program.h"

#include <utility>

#include "detent/core/error.h"
#include "detent/engine/fast_executor.h"
#include "detent/reference/integer_executor.h"

namespace detent {

void check_engine(const Graph& graph, Engine engine) {
  if (engine != Engine::kIntegers) return;
  if (!graph.requantization()) {
    fail(
        "--engine integers: graph \"{}\" is not quantized for integer execution: `detent quantize` does that",
        graph.name());
  }
  check_integer_execution(graph);
}

std::unique_ptr<const Program> integer_program(const Graph& graph, Engine engine) {
  check_engine(graph, engine);
  if (engine == Engine::kReference) return IntegerExecutor().compile(graph);
  return FastExecutor().compile(graph);
}

std::unique_ptr<const Program> program_of(Graph graph, std::optional<Engine> engine) {
  if (engine && *engine != Engine::kSimulation) return integer_program(graph, *engine);
  return std::make_unique<FastProgram>(std::move(graph));  // gives weights back that it packs
}

}  // namespace detent
