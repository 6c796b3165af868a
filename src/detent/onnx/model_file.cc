#include "detent/onnx/model_file.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/core/text.h"
#include "detent/onnx/import_steps.h"
#include "detent/onnx/tensor_data.h"

namespace detent {
namespace {

constexpr int64_t kFirstIrWithImports = 3;
constexpr int64_t kNewestIr = 14;

template <class Message>
void parse(const MappedFile& file, Message& message, const std::filesystem::path& path, const char* what) {
  if (file.bytes().size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    fail(
        "{}: {} bytes; a message of protobuf has at most {}: larger models keep their tensors in files "
        "beside them",
        path.string(), file.bytes().size(), std::numeric_limits<int>::max());
  }
  google::protobuf::io::ArrayInputStream stream(file.bytes().data(), static_cast<int>(file.bytes().size()));
  google::protobuf::io::CodedInputStream coded(&stream);
  constexpr int kDeepestMessage = 100;  // graphs within graphs
  coded.SetRecursionLimit(kDeepestMessage);
  if (!message.ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage())
    fail("{}: no {} in ONNX's format, or a damaged one", path.string(), what);
}

std::optional<uint64_t> line_number(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

OnnxModelFile::OnnxModelFile(const std::filesystem::path& path)
    : path_(path), model_(std::make_unique<onnx::ModelProto>()) {
  const auto file = map_file(path);
  byte_size_ = file->bytes().size();
  parse(*file, *model_, path, "model");
  if (!model_->has_graph()) fail("{}: no model in ONNX's format: it has no graph", path.string());
  const int64_t ir_version = model_->ir_version();
  if (ir_version < 1) fail("{}: IR version {}, expected at least 1", path.string(), ir_version);
  for (const auto& import : model_->opset_import()) {
    if (import.domain().empty() && import.version() < 1)
      fail("{}: opset {}, expected at least 1", path.string(), import.version());
    opsets_[import.domain() == "ai.onnx" ? "" : import.domain()] = import.version();
  }
  if (ir_version < kFirstIrWithImports) opsets_.try_emplace("", 1);
  if (opsets_.empty()) fail("{}: no opset import: the version of the operators is not given", path.string());
  if (const std::string texts = leave_out_texts(*model_->mutable_graph()); !texts.empty())
    warn(fmt::format("{}: left out are the inputs of strings {}", printable(path.string()), texts));
}

void OnnxModelFile::warn_of_newer_versions() const {
  int64_t newest = opset("");
  for (const onnx::FunctionProto& function : model_->functions()) {
    for (const auto& import : function.opset_import()) {
      const bool is_standard = import.domain().empty() || import.domain() == "ai.onnx";
      if (is_standard) newest = std::max(newest, import.version());
    }
  }
  std::vector<std::string> newer;
  if (newest > kNewestKnownOpset)
    newer.push_back(fmt::format("opset {} (known: up to {})", newest, kNewestKnownOpset));
  if (model_->ir_version() > kNewestIr)
    newer.push_back(fmt::format("IR version {} (known: up to {})", model_->ir_version(), kNewestIr));
  if (newer.empty()) return;
  log_warning("{}: {}: operators are taken to mean what they do in the newest version that is known",
              printable(path_.string()), fmt::join(newer, " and "));
}

void OnnxModelFile::warn(const std::string& message) {
  if (warnings_.insert(message).second) log_warning("{}", message);
}

Tensor OnnxModelFile::in_float32(const Tensor& tensor, const std::string& name) {
  if (exceeds_float32(tensor))
    warn(
        fmt::format("{}: constant \"{}\" has float64 numbers beyond {}: float32, in which the network "
                    "computes, has none, and they become that one",
                    printable(path_.string()), printable_line(name), std::numeric_limits<float>::max()));
  if (vanishes_in_float32(tensor))
    warn(
        fmt::format("{}: constant \"{}\" has float64 numbers too small for float32, in which the network "
                    "computes, and they become 0",
                    printable(path_.string()), printable_line(name)));
  return as_float32(tensor);
}

OnnxModelFile::~OnnxModelFile() = default;

int64_t OnnxModelFile::opset(const std::string& domain) const {
  const auto found = opsets_.find(domain == "ai.onnx" ? "" : domain);
  return found == opsets_.end() ? 0 : found->second;
}

/// The file must lie in the model's folder or below it, links resolved: a model from elsewhere must not read
/// other files.
std::shared_ptr<const MappedFile> OnnxModelFile::beside(const std::string& location,
                                                        const std::string& tensor) {
  if (const auto found = mapped_.find(location); found != mapped_.end()) return found->second;
  const std::filesystem::path relative = location;
  std::error_code error;
  const auto folder = std::filesystem::canonical(std::filesystem::absolute(path_).parent_path(), error);
  const auto file = std::filesystem::weakly_canonical(folder / relative, error);
  const auto [end, unused] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  if (location.empty() || relative.is_absolute() || error || end != folder.end()) {
    fail("{}: tensor \"{}\" lies in \"{}\", which is not in the model's folder", path_.string(), tensor,
         location);
  }
  if (!std::filesystem::exists(file, error)) {
    fail("{}: tensor \"{}\" lies in \"{}\", which is missing in {}: copy it there with the model",
         path_.string(), tensor, location, folder.string());
  }
  return mapped_[location] = map_file(file);
}

int64_t OnnxModelFile::number_of_text(const std::string& text) {
  const auto [found, is_new] = text_numbers_.try_emplace(text, std::ssize(texts_));
  if (is_new) texts_.push_back(text);
  return found->second;
}

Tensor OnnxModelFile::numbered_texts(const onnx::TensorProto& proto) {
  const Shape shape = shape_of(proto);
  if (proto.string_data_size() != element_count(shape))
    fail("tensor \"{}\": {} strings for shape {}", proto.name(), proto.string_data_size(), shape_text(shape));
  Tensor numbers(DType::kInt64, shape);
  std::ranges::transform(proto.string_data(), numbers.values<int64_t>().begin(),
                         [&](const std::string& text) { return number_of_text(text); });
  return numbers;
}

Tensor OnnxModelFile::sparse_tensor(const onnx::SparseTensorProto& proto) {
  const Tensor values = tensor(proto.values());
  const Tensor indices = tensor(proto.indices());
  const auto refuse = [&](const std::string& reason) {
    fail("{}: sparse tensor \"{}\": {}", path_.string(), proto.values().name(), reason);
  };
  const Shape shape(proto.dims().begin(), proto.dims().end());
  constexpr int64_t kMostElements = int64_t{1} << 28;
  if (shape.empty() || shape.size() > kMostDims || element_count(shape) > kMostElements)
    refuse(fmt::format("shape {}, expected at most {} elements", shape_text(shape), kMostElements));
  const auto rank = std::ssize(shape);
  const bool has_rows = indices.rank() == 2 && indices.shape() == Shape{values.numel(), rank};
  const bool is_list = indices.rank() == 1 && indices.numel() == values.numel();
  if (indices.dtype() != DType::kInt64 || values.rank() != 1 || (!has_rows && !is_list))
    refuse(fmt::format("indices {} {} for values {}", dtype_name(indices.dtype()),
                       shape_text(indices.shape()), shape_text(values.shape())));
  Tensor result(values.dtype(), shape);
  const size_t size = dtype_size(values.dtype());
  for (int64_t i = 0; i < values.numel(); ++i) {
    int64_t place = 0;
    const auto within = [&](int64_t index, int64_t count) {
      if (index < 0 || index >= count) refuse(fmt::format("index {}, expected 0 to {}", index, count - 1));
      return index;
    };
    if (has_rows) {
      for (int64_t d = 0; d < rank; ++d) {
        const int64_t count = shape[static_cast<size_t>(d)];
        place = place * count + within(indices.values<int64_t>()[static_cast<size_t>(i * rank + d)], count);
      }
    } else {
      place = within(indices.values<int64_t>()[static_cast<size_t>(i)], result.numel());
    }
    std::ranges::copy(
        values.bytes().subspan(static_cast<size_t>(i) * size, size),
        result.bytes().begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(place) * size));
  }
  return result;
}

Tensor OnnxModelFile::tensor(const onnx::TensorProto& proto) {
  const auto naming = [&](const std::string& reason) { fail("{}: {}", path_.string(), reason); };
  try {
    if (proto.data_type() == kOnnxText) return numbered_texts(proto);
    if (proto.data_location() != onnx::TensorProto::EXTERNAL) return tensor_of(proto);
  } catch (const Error& error) {
    naming(error.what());
  }
  const Shape shape = shape_of(proto);
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = line_number(entry.value()).value_or(UINT64_MAX);
    if (entry.key() == "length") length = line_number(entry.value()).value_or(UINT64_MAX);
  }
  const auto file = beside(location, proto.name());
  const DType dtype = dtype_of_onnx(proto.data_type());
  const NarrowType* const narrow = find_narrow_type(proto.data_type());
  const uint64_t bytes = narrow != nullptr ? packed_size(*narrow, element_count(shape))
                                           : static_cast<uint64_t>(element_count(shape)) * dtype_size(dtype);
  const uint64_t size = file->bytes().size();
  if (offset > size || bytes > size - offset || (length && *length != bytes)) {
    naming(fmt::format("tensor \"{}\" of {} bytes does not fit into {} at {}, which has {} bytes",
                       proto.name(), bytes, location, offset, size));
  }
  if (narrow != nullptr) return unpacked(*narrow, shape, std::as_bytes(file->bytes()).subspan(offset, bytes));
  if (offset % dtype_size(dtype) == 0 && dtype != DType::kBool)
    return Tensor::borrow(dtype, shape, file->bytes().data() + offset, file);
  Tensor copy(dtype, shape);
  std::ranges::copy(file->bytes().subspan(offset, bytes), copy.bytes().begin());
  set_truth(copy);
  return copy;
}

Tensor read_onnx_tensor(const std::filesystem::path& path) {
  onnx::TensorProto proto;
  parse(*map_file(path), proto, path, "tensor");
  if (proto.data_location() == onnx::TensorProto::EXTERNAL)
    fail("{}: its elements are in another file, which is not read", path.string());
  try {
    return tensor_of(proto);
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
}

}  // namespace detent
