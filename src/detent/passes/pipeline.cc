#include "detent/core/error.h"
#include "detent/passes/pass.h"

namespace detent {

void run_pipeline(Graph& graph, const Table& passes, const std::string& file, PassContext& context) {
  for (const auto& [name, options] : passes) {
    try {
      find_pass(name);
    } catch (const Error& error) {
      fail("{}: [passes.{}]: {}", file, name, error.what());
    }
    if (!options.is<Table>()) {
      fail("{}: passes.{} is {} ({}), expected a table [passes.{}]", file, name, value_text(options),
           options.kind_name(), name);
    }
    const PassInfo& pass = find_pass(name);
    if (pass.check_options) {
      pass.check_options(*options.get_if<Table>(), fmt::format("{}, [passes.{}]", file, name));
    }
  }
  for (const auto& [name, options] : passes) {
    context.where = fmt::format("{}, [passes.{}]", file, name);
    find_pass(name).run(graph, *options.get_if<Table>(), context);
    context.group->all_gather({});  // the next pass may read what the first worker has written
  }
}

}  // namespace detent
