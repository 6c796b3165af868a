#include "detent/cli/network_info.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/graph/operators.h"
#include "detent/passes/analysis/quantization_summary.h"

extern char** environ;

namespace detent {
namespace {

namespace fs = std::filesystem;

/// In a quoted string of DOT; `\n` breaks lines there.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

const char* fill_of(const Node& node) {
  const OperatorRole role = role_of(node);
  if (role == OperatorRole::kInput || role == OperatorRole::kOutput) return "#dddddd";
  return node.quantization.empty() ? "#ffffff" : "#d8ecd8";
}

std::string node_line(const Node& node, const ValueTypes& values) {
  std::string label = escaped(node.name);
  if (role_of(node) != OperatorRole::kInput && role_of(node) != OperatorRole::kOutput)
    label += "\\n" + escaped(node.op);
  const auto result = values.find(node.name);
  if (result != values.end() && result->second.is_tensor())
    label += "\\n" + escaped(shape_text(result->second.shape));
  std::string formats = escaped(operand_formats_text(node));
  for (size_t at = 0; (at = formats.find(' ', at)) != std::string::npos; at += 2)
    formats.replace(at, 1, "\\n");
  if (!formats.empty()) label += "\\n" + formats;
  return fmt::format("  \"{}\" [label=\"{}\", fillcolor=\"{}\"];\n", escaped(node.name), label,
                     fill_of(node));
}

/// The descriptor to write to, and the process that reads it.
struct DotProcess {
  int input = -1;
  pid_t process = -1;
};

DotProcess start_dot(const std::string& type, int output, const fs::path& path) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) fail("{}: cannot create a pipe: {}", path.string(), std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  std::string type_option = "-T" + type;
  std::string name = "dot";
  std::array<char*, 3> arguments = {name.data(), type_option.data(), nullptr};
  DotProcess dot;
  const int error = posix_spawnp(&dot.process, "dot", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[0]);
  dot.input = ends[1];
  if (error == 0) return dot;
  close(ends[1]);
  fail("{}: cannot run dot: {}; install graphviz, or give a file that ends in .dot", path.string(),
       std::strerror(error));
}

/// Whether it took all of it: it may end early.
bool feed(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

void run_dot(const std::string& dot, const std::string& type, int output, const fs::path& path) {
  const DotProcess process = start_dot(type, output, path);
  const bool fed = feed(process.input, dot);
  close(process.input);
  int status = 0;
  while (waitpid(process.process, &status, 0) < 0 && errno == EINTR) {
  }
  if (!fed || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail("{}: dot failed ({})", path.string(),
         WIFEXITED(status) ? fmt::format("exit status {}", WEXITSTATUS(status)) : "a signal");
}

}  // namespace

std::string dot_text(const Graph& graph) {
  const ValueTypes values = infer_shapes(graph);
  std::string text = fmt::format("digraph \"{}\" {{\n", escaped(graph.name()));
  text +=
      "  node [shape=box, style=\"filled,rounded\", fontname=\"sans-serif\", fontsize=10];\n"
      "  edge [color=\"#666666\"];\n";
  for (const Node& node : graph.nodes()) text += node_line(node, values);
  for (const Node& node : graph.nodes()) {
    for (const NodeInput& input : node.inputs) {
      if (!input.is_constant())
        text += fmt::format("  \"{}\" -> \"{}\";\n", escaped(input.node), escaped(node.name));
    }
  }
  return text + "}\n";
}

void draw_graph(const Graph& graph, const fs::path& path) {
  const std::string type = path.extension().string();
  if (type == ".dot" || type == ".gv") return write_file(path, dot_text(graph));
  if (type != ".svg" && type != ".png" && type != ".pdf")
    fail("{}: got the ending \"{}\", expected .svg, .png, .pdf or .dot", path.string(), type);
  UnfinishedFile file(path);
  run_dot(dot_text(graph), type.substr(1), file.descriptor(), path);
  if (!file.take_name()) fail("{}: cannot write: {}", path.string(), std::strerror(errno));
}

}  // namespace detent
