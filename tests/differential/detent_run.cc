#include "runs.h"

#include <algorithm>
#include <optional>

#include "detent/engine/fast_executor.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/export_onnx.h"
#include "detent/onnx/import_onnx.h"
#include "verdict.h"

namespace detent {
namespace {

class Steps {
 public:
  Steps(std::vector<StepResult>& problems, const std::function<void(const char*)>& announce)
      : problems_(problems), announce_(announce) {}

  /// Whether the body ended without an exception.
  bool take(const char* step, const std::function<void()>& body) {
    announce_(step);
    try {
      body();
      return true;
    } catch (const Error& error) {
      const std::string text = error.what();
      problems_.push_back(
          {text.find("internal error") == std::string::npos ? Ending::kRefused : Ending::kInternalError, step,
           text});
    } catch (const std::exception& error) {
      problems_.push_back({Ending::kInternalError, step, error.what()});
    }
    return false;
  }

  void expect_equal(const char* step, const std::vector<Tensor>& expected, const std::vector<Tensor>& actual,
                    const std::vector<GeneratedValue>& outputs, bool exactly) {
    const std::string text = difference(expected, actual, outputs, exactly);
    if (!text.empty()) problems_.push_back({Ending::kWrong, step, text});
  }

 private:
  std::vector<StepResult>& problems_;
  const std::function<void(const char*)>& announce_;
};

/// As `detent run` reads a model: with the shapes of the inputs where it asks for these.
Graph imported(const std::filesystem::path& model, const Case& generated) {
  try {
    return import_onnx(model);
  } catch (const Error&) {
    OnnxImportOptions options;
    for (const auto& [name, tensor] : generated.inputs) options.shapes[name] = tensor.shape();
    return import_onnx(model, options);
  }
}

std::vector<Tensor> ordered_inputs(const Graph& graph, const Case& generated) {
  std::vector<Tensor> inputs;
  for (const std::string& node : graph.input_names()) {
    const auto found = std::ranges::find(generated.inputs, node, &std::pair<std::string, Tensor>::first);
    DETENT_CHECK(found != generated.inputs.end(), "input {}", node);
    inputs.push_back(found->second);
  }
  return inputs;
}

bool has_quantizers(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) { return !node.quantization.empty(); });
}

/// In the style that carries all, and the first opset that has all operators.
void export_in_any_opset(const Graph& graph, const std::filesystem::path& path) {
  const OnnxStyle style = has_quantizers(graph) ? OnnxStyle::kQdq : OnnxStyle::kFloat;
  try {
    export_onnx(graph, path, {.style = style});
  } catch (const Error&) {
    export_onnx(graph, path, {.style = style, .opset = 21});
  }
}

}  // namespace

DetentRun run_detent(const Case& generated, const std::filesystem::path& folder,
                     const std::function<void(const char*)>& announce) {
  DetentRun run;
  Steps steps(run.problems, announce);
  std::optional<Graph> graph;
  if (!steps.take("import", [&] { graph = imported(folder / "model.onnx", generated); })) return run;
  const std::vector<Tensor> inputs = ordered_inputs(*graph, generated);
  std::vector<Tensor> plain;
  std::vector<Tensor> fast;
  steps.take("run reference", [&] { plain = IntegerExecutor().compile(*graph)->run(inputs); });
  steps.take("run fast", [&] { fast = FastExecutor().compile(*graph)->run(inputs); });
  const auto& outputs = generated.outputs;
  if (!plain.empty() && !fast.empty()) steps.expect_equal("fast and reference", plain, fast, outputs, true);
  run.outputs = !plain.empty() ? plain : fast;
  const std::filesystem::path path = folder / "exported.onnx";
  run.has_exported = steps.take("export", [&] { export_in_any_opset(*graph, path); });
  if (!run.has_exported || run.outputs.empty()) return run;
  std::vector<Tensor> again;
  steps.take("import of the export", [&] {
    const Graph read = imported(path, generated);
    again = FastExecutor().compile(read)->run(ordered_inputs(read, generated));
  });
  if (!again.empty()) steps.expect_equal("the export, read back", run.outputs, again, outputs, false);
  return run;
}

}  // namespace detent
