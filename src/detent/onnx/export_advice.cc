#include "detent/onnx/import_steps.h"

namespace detent {
namespace {

/// An empty domain or operator stands for all of them; "*" after an operator for all that begin so.
struct Advice {
  std::string_view domain;
  std::string_view op;
  std::string_view text;
};

constexpr std::string_view kTensorRt =
    "it is TensorRT's: export without the network's final selection of boxes (Ultralytics: nms=False; "
    "YOLOv7: "
    "export.py without its options end2end and include-nms; mmdeploy: a configuration of the backend "
    "onnxruntime)";
constexpr std::string_view kOnnxRuntimeLayout =
    "ONNX Runtime wrote it for one processor: save the optimized model with graph_optimization_level "
    "ORT_ENABLE_EXTENDED or less, or take the model before it";
constexpr std::string_view kOnnxRuntimeFused =
    "ONNX Runtime's optimizer fused it: take the model before it, or save the optimized one with "
    "graph_optimization_level ORT_ENABLE_BASIC (Optimum: -O1 or none)";
constexpr std::string_view kGeneration =
    "it generates text around a network: export the network itself (the decoder of convert_generation.py's "
    "option decoder_onnx, or Optimum's decoder_model.onnx)";
constexpr std::string_view kPyTorchAten =
    "PyTorch wrote what it could not translate: export with operator_export_type=ONNX (not ONNX_ATEN, "
    "ONNX_ATEN_FALLBACK or ONNX_FALLTHROUGH), or with dynamo=True";
constexpr std::string_view kPythonFunction =
    "a torch.autograd.Function of the network: export with autograd_inlining=True, or register a symbolic "
    "for "
    "it";
constexpr std::string_view kProcessing =
    "processing around the network: export without it (onnxruntime-extensions: the model before "
    "add_pre_post_processing_steps_to_model), and give the arrays that it would compute";
constexpr std::string_view kTensorFlow =
    "tf2onnx left an operator of TensorFlow: without its option continue_on_error it says which it cannot "
    "write, and a newer opset may have it";

constexpr Advice kAdvice[] = {
    {"com.microsoft.nchwc", "", kOnnxRuntimeLayout},
    {"com.ms.internal.nhwc", "", kOnnxRuntimeLayout},
    {"com.microsoft", "BeamSearch", kGeneration},
    {"com.microsoft", "GreedySearch", kGeneration},
    {"com.microsoft", "Sampling", kGeneration},
    {"com.microsoft", "WhisperBeamSearch", kGeneration},
    {"com.microsoft", "", kOnnxRuntimeFused},
    {"org.pytorch.aten", "", kPyTorchAten},
    {"aten", "", kPyTorchAten},
    {"prim", "", kPyTorchAten},
    {"com.microsoft.extensions", "", kProcessing},
    {"ai.onnx.contrib", "", kProcessing},
    {"TRT", "", kTensorRt},
    {"", "EfficientNMS*", kTensorRt},
    {"", "BatchedNMS*", kTensorRt},
    {"", "TRTBatchedNMS*", kTensorRt},
    {"mmdeploy", "", kTensorRt},
    {"", "ATen", kPyTorchAten},
    {"", "PythonOp", kPythonFunction},
    {"", "PyOp", kPythonFunction},
    {"", "TensorList*", kTensorFlow},
    {"", "Placeholder*", kTensorFlow},
    {"", "String*", kProcessing},
    {"", "TfIdfVectorizer", kProcessing},
    {"", "ImageDecoder", kProcessing},
    {"", "Multinomial", "export the network without its sampling, with logits as outputs"},
};

bool is_for(const Advice& advice, std::string_view domain, std::string_view op) {
  if (advice.domain != (domain == "ai.onnx" ? "" : domain)) return false;
  if (advice.op.ends_with('*')) return op.starts_with(advice.op.substr(0, advice.op.size() - 1));
  return advice.op.empty() || advice.op == op;
}

}  // namespace

std::string_view export_advice(std::string_view domain, std::string_view op) {
  for (const Advice& advice : kAdvice) {
    if (is_for(advice, domain, op)) return advice.text;
  }
  return "";
}

}  // namespace detent
