#include "detent/passes/pipeline.h"

#include <sys/stat.h>

#include <algorithm>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/core/name_pattern.h"
#include "detent/files/file.h"
#include "detent/files/file_roles.h"
#include "detent/graph/operator_arguments.h"
#include "detent/graph/parameter_keys.h"
#include "detent/passes/post_training/loop_bodies.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

/// Passes of options rather than of a file are known by their names.
std::string place_of(const std::string& file, const std::string& pass) {
  return file.empty() ? pass : fmt::format("{}, [passes.{}]", file, pass);
}

const PassInfo& pass_of(const std::string& file, const TableEntry& entry) {
  const auto& [name, options] = entry;
  try {
    find_pass(name);
  } catch (const Error& error) {
    throw with_fields(error, fmt::format("{}: {}", place_of(file, name), error.what()), {.key = name});
  }
  if (!options.is<Table>()) {
    fail("{}: passes.{} is {} ({}), expected a table [passes.{}]", file, name, value_text(options),
         options.kind_name(), name);
  }
  return find_pass(name);
}

/// Before any work: layers that the pass will leave as they are.
void warn_of_layers_left(const Graph& graph, const PassInfo& pass, const std::string& where,
                         const PassContext& context) {
  const bool leaves_bodies = pass.stage != PassStage::kAny && !pass.reaches_bodies;
  if (const auto layers = layers_in_bodies(graph); leaves_bodies && !layers.empty())
    context.warn(fmt::format("{}: stay as they are, in bodies of loops: {}", where, listed_names(layers)));
  if (pass.stage != PassStage::kChoosingScales && pass.stage != PassStage::kRoundingWeights) return;
  std::vector<std::string> recurrent;
  for (const Node& node : graph.nodes()) {
    bool has_weights = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) has_weights = has_weights || is_recurrent_weight(node, i);
    if (has_weights) recurrent.push_back(node.name);
  }
  if (!recurrent.empty())
    context.warn(fmt::format("{}: weights of recurrent layers are rounded to nearest: {}", where,
                             listed_names(recurrent)));
}

std::string stage_name(const PassInfo& pass) { return enum_name(pass.stage); }

/// "fuse_batch_norm, quantize, gptq"
std::string right_order(std::vector<const PassInfo*> passes) {
  std::ranges::stable_sort(passes, {}, &PassInfo::stage);
  std::vector<std::string> names;
  for (const PassInfo* pass : passes) names.push_back(pass->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Whether one is the other or a folder that holds it.
bool overlap(const fs::path& a, const fs::path& b) {
  const fs::path x = fs::absolute(a).lexically_normal();
  const fs::path y = fs::absolute(b).lexically_normal();
  const auto [in_x, in_y] = std::mismatch(x.begin(), x.end(), y.begin(), y.end());
  return in_x == x.end() || in_y == y.end();
}

}  // namespace

Pipeline::Pipeline(const Table& passes, std::string file) : file_(std::move(file)) {
  for (const TableEntry& entry : passes) {
    const PassInfo& pass = pass_of(file_, entry);
    std::string where = place_of(file_, pass.name);
    ParsedPass parsed = pass.parse(*entry.value.get_if<Table>(), where);
    steps_.push_back({&pass, std::move(parsed), std::move(where)});
  }
  check_order();
  check_files();
}

void Pipeline::check_order() const {
  const std::string begin = file_.empty() ? "" : file_ + ": ";
  std::vector<const PassInfo*> staged;  // of the graph that is there
  for (size_t i = 0; i < steps_.size(); ++i) {
    const PassInfo& pass = *steps_[i].pass;
    if (pass.replaces_graph) staged.clear();
    if (pass.stage == PassStage::kAny) continue;
    const PassInfo* previous = staged.empty() ? nullptr : staged.back();
    staged.push_back(&pass);
    if (previous == nullptr || pass.stage > previous->stage) continue;
    if (pass.stage < previous->stage) {
      for (size_t later = i + 1; later < steps_.size() && !steps_[later].pass->replaces_graph; ++later) {
        if (steps_[later].pass->stage != PassStage::kAny) staged.push_back(steps_[later].pass);
      }
      fail("{}the pass \"{}\" ({}) stands after \"{}\" ({}); the right order is {}", begin, pass.name,
           stage_name(pass), previous->name, stage_name(*previous), right_order(staged));
    }
    if (pass.stage == PassStage::kRoundingWeights) {
      fail(
          "{}the passes \"{}\" and \"{}\" both choose the weights of every quantized layer: expected one "
          "of them",
          begin, previous->name, pass.name);
    }
  }
}

void Pipeline::check_files() const {
  std::vector<PassFile> written;
  for (const Step& step : steps_) {
    for (const PassFile& file : step.parsed.files) {
      const std::string where = fmt::format("{}: key \"{}\"", step.where, file.key);
      if (file.is_written) {
        if (file.path) check_writable(*file.path, where);
        written.push_back(file);
        continue;
      }
      // A default place is not known here: it may be this one.
      const bool comes = std::ranges::any_of(
          written, [&](const PassFile& other) { return !other.path || overlap(*other.path, *file.path); });
      if (!comes && !fs::exists(*file.path))
        fail("{}: {}: no such file or folder", where, file.path->string());
    }
  }
}

void Pipeline::claim_files(const fs::path& results, bool overwrite) const {
  const fs::path folder = fs::weakly_canonical(fs::absolute(results));
  FileRoles* roles = FileRoles::current();
  for (const Step& step : steps_) {
    for (const PassFile& file : step.parsed.files) {
      if (!file.path) continue;
      const std::string where = fmt::format("{}: key \"{}\"", step.where, file.key);
      struct stat status {};
      if (!file.is_written && roles != nullptr && stat(file.path->c_str(), &status) == 0)
        roles->note_read(status, *file.path);
      const fs::path path = fs::weakly_canonical(fs::absolute(*file.path));
      const bool is_inside = std::ranges::mismatch(folder, path).in1 == folder.end();
      if (file.is_written && !is_inside)
        claim_output(*file.path, where, overwrite, MissingFolder::kIsCreated);
    }
  }
}

void PassContext::warn_of_few_samples(int64_t samples, int64_t wanted) const {
  if (samples >= wanted || *few_samples == samples) return;
  *few_samples = samples;
  warn(fmt::format("{}: there {} only {} sample{}, num_samples expects {}", where,
                   samples == 1 ? "is" : "are", samples, samples == 1 ? "" : "s", wanted));
}

PassContext PassContext::quiet() const {
  PassContext context = *this;
  context.report = context.warn = [](const std::string&) {};
  context.few_samples = std::make_shared<int64_t>(-1);
  return context;
}

void Pipeline::check(const Graph& graph) const {
  EarlierPasses earlier;
  for (const Step& step : steps_) {
    if (step.pass->replaces_graph) return;
    step.parsed.check(graph, earlier);
    if (step.pass->kind == PassKind::kTransform) earlier.change_network = true;
    if (step.pass->stage == PassStage::kQuantizing) earlier.quantize = true;
  }
}

void Pipeline::run(Graph& graph, PassContext& context) const {
  for (const Step& step : steps_) warn_of_layers_left(graph, *step.pass, step.where, context);
  for (const Step& step : steps_) {
    context.where = step.where;
    step.parsed.run(graph, context);
    if (step.pass->kind == PassKind::kTransform) make_parameter_keys_unique(graph);
    context.group->all_gather({});  // the next pass may read what the first worker has written
  }
}

bool Pipeline::changes_network() const {
  return std::ranges::any_of(steps_,
                             [](const Step& step) { return step.pass->kind == PassKind::kTransform; });
}

void run_pipeline(Graph& graph, const Table& passes, const std::string& file, PassContext& context) {
  const Pipeline pipeline(passes, file);
  pipeline.check(graph);
  pipeline.run(graph, context);
}

}  // namespace detent
