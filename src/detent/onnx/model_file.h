#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/files/file.h"

namespace onnx {
class ModelProto;
class SparseTensorProto;
class TensorProto;
}  // namespace onnx

namespace detent {

/// The newest opset whose operators are known to the last attribute.
constexpr int64_t kNewestKnownOpset = 28;

/// A model in ONNX's format (onnx.ai), as its file says, and what its tensors refer to beside it.
class OnnxModelFile {
 public:
  /// Throws Error, naming the file, when that is no model, is damaged, or does not say which version of the
  /// operators it needs.
  explicit OnnxModelFile(const std::filesystem::path& path);
  ~OnnxModelFile();
  OnnxModelFile(const OnnxModelFile&) = delete;
  OnnxModelFile& operator=(const OnnxModelFile&) = delete;

  const onnx::ModelProto& model() const { return *model_; }
  const std::filesystem::path& path() const { return path_; }
  size_t byte_size() const { return byte_size_; }
  /// Version of the operator set of a domain; 0 when the model does not import it. "ai.onnx" is "".
  int64_t opset(const std::string& domain) const;

  /// Warns, once for both, of an opset and an IR version beyond those that are known.
  void warn_of_newer_versions() const;
  /// Once, however often the file is read for other sizes of what it leaves open.
  void warn(const std::string& message);

  /// The elements: copied, or those of a file beside the model, mapped. Throws Error naming the tensor when
  /// the data do not fit its shape, or lie in no file of the model's folder.
  Tensor tensor(const onnx::TensorProto& proto);
  /// as_float32, with a warning where a float64 is beyond it or too small.
  Tensor in_float32(const Tensor& tensor, const std::string& name);
  /// A tensor that is 0 but for the elements that the message has. Throws Error likewise.
  Tensor sparse_tensor(const onnx::SparseTensorProto& proto);

  /// Texts are numbers: the first that is asked for is 0, the next other one 1.
  int64_t number_of_text(const std::string& text);
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  Tensor numbered_texts(const onnx::TensorProto& proto);
  std::shared_ptr<const MappedFile> beside(const std::string& location, const std::string& tensor);

  std::filesystem::path path_;
  size_t byte_size_ = 0;
  std::unique_ptr<onnx::ModelProto> model_;
  std::map<std::string, int64_t> opsets_;
  std::map<std::string, std::shared_ptr<const MappedFile>> mapped_;
  std::set<std::string> warnings_;
  std::vector<std::string> texts_;
  std::map<std::string, int64_t> text_numbers_;
};

/// A tensor in a file of its own (TensorProto, .pb), as samples beside published models are. Throws Error
/// naming the file on one that is damaged or has its elements in another file.
Tensor read_onnx_tensor(const std::filesystem::path& path);

}  // namespace detent
