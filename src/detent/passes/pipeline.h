#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/graph/graph.h"
#include "detent/passes/pass.h"

namespace detent {

/// The passes of `[passes]` in order. Errors are found as early as possible: by the constructor without a
/// graph, by `check` before anything runs.
class Pipeline {
 public:
  /// Throws Error, beginning with `file` (the configuration's name; "": options name the passes), on unknown
  /// passes and options, on values that are wrong by themselves, on an order in which a pass would undo or
  /// miss what another does, on files to read that neither exist nor are written by an earlier pass, and on
  /// files that cannot be written.
  Pipeline(const Table& passes, std::string file);

  /// Claims the output files outside of `results`, the folder replaced as a whole, as claim_output does;
  /// records input files.
  void claim_files(const std::filesystem::path& results, bool overwrite) const;

  /// Throws Error on conflicts with the graph: names that match no node, nodes that are quantized already or
  /// not yet.
  void check(const Graph& graph) const;

  /// Runs as checked; `check` may be called before, with long computations in between.
  void run(Graph& graph, PassContext& context) const;

  /// Whether a pass changes the network.
  bool changes_network() const;

 private:
  struct Step {
    const PassInfo* pass;
    ParsedPass parsed;
    std::string where;
  };

  void check_order() const;
  void check_files() const;

  std::string file_;
  std::vector<Step> steps_;
};

}  // namespace detent
