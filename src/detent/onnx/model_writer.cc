#include "detent/onnx/model_writer.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx/onnx_pb.h>

#include <iterator>
#include <limits>

#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/unfinished_file.h"
#include "detent/graph/loop.h"
#include "detent/onnx/import_steps.h"
#include "detent/onnx/tensor_data.h"
#include "detent/onnx/weights_file.h"

namespace detent {
namespace {

/// The oldest version of the file format that has the operator set.
int64_t ir_version(int64_t opset) {
  constexpr std::pair<int64_t, int64_t> kNewerThan[] = {{24, 13}, {23, 12}, {22, 11},
                                                        {20, 10}, {18, 9},  {14, 8}};
  for (const auto& [older, version] : kNewerThan) {
    if (opset > older) return version;
  }
  return 7;
}

class FileStream : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit FileStream(AtomicFile& file) : file_(file) {}
  bool Write(const void* buffer, int size) override {
    file_.write({static_cast<const std::byte*>(buffer), static_cast<size_t>(size)});
    return true;
  }

 private:
  AtomicFile& file_;
};

/// Texts, numbers or integers, as the first of them is.
void set_list(const List& list, onnx::AttributeProto& attribute) {
  if (!list.empty() && list.front().is<std::string>()) {
    attribute.set_type(onnx::AttributeProto::STRINGS);
    for (const Value& element : list) attribute.add_strings(*element.get_if<std::string>());
  } else if (!list.empty() && list.front().is<double>()) {
    attribute.set_type(onnx::AttributeProto::FLOATS);
    for (const Value& element : list) attribute.add_floats(static_cast<float>(*element.get_if<double>()));
  } else {
    attribute.set_type(onnx::AttributeProto::INTS);
    for (const Value& element : list) attribute.add_ints(*element.get_if<int64_t>());
  }
}

void set_attribute(const TableEntry& entry, onnx::AttributeProto& attribute) {
  attribute.set_name(entry.key);
  if (const auto* integer = entry.value.get_if<int64_t>()) {
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(*integer);
  } else if (const auto* flag = entry.value.get_if<bool>()) {
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(*flag ? 1 : 0);
  } else if (const auto* number = entry.value.get_if<double>()) {
    attribute.set_type(onnx::AttributeProto::FLOAT);
    attribute.set_f(static_cast<float>(*number));
  } else if (const auto* text = entry.value.get_if<std::string>()) {
    attribute.set_type(onnx::AttributeProto::STRING);
    attribute.set_s(*text);
  } else {
    const auto* list = entry.value.get_if<List>();
    DETENT_CHECK(list != nullptr, "attribute {}: {}", entry.key, value_text(entry.value));
    set_list(*list, attribute);
  }
}

void set_tensor_type(int64_t element_type, const Shape& shape, onnx::TensorProto& proto) {
  for (const int64_t size : shape) proto.add_dims(size);
  proto.set_data_type(static_cast<int32_t>(element_type));
}

void set_external(const std::string& location, uint64_t offset, uint64_t length, onnx::TensorProto& proto) {
  proto.set_data_location(onnx::TensorProto::EXTERNAL);
  const std::pair<const char*, std::string> entries[] = {
      {"location", location}, {"offset", std::to_string(offset)}, {"length", std::to_string(length)}};
  for (const auto& [key, value] : entries) {
    auto& entry = *proto.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
}

void set_element_type(const std::string& name, DType dtype, onnx::ValueInfoProto& info) {
  info.set_name(name);
  info.mutable_type()->mutable_tensor_type()->set_elem_type(static_cast<int32_t>(onnx_element_type(dtype)));
}

void set_type(const std::string& name, const TensorType& type, onnx::ValueInfoProto& info) {
  set_element_type(name, type.dtype, info);
  auto& shape = *info.mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const Dimension& dimension : type.shape) {
    auto& size = *shape.add_dim();
    if (dimension.is_named()) {
      size.set_dim_param(dimension.symbol);
    } else {
      size.set_dim_value(dimension.size);
    }
  }
}

}  // namespace

OnnxModelWriter::OnnxModelWriter(const std::string& graph_name)
    : model_(std::make_unique<onnx::ModelProto>()) {
  model_->set_producer_name("detent");
  model_->mutable_graph()->set_name(graph_name.empty() ? "graph" : graph_name);
}

OnnxModelWriter::~OnnxModelWriter() = default;

std::string OnnxModelWriter::new_value(const std::string& wanted) {
  std::string name = wanted;
  while (!values_.insert(name).second) name = fmt::format("{}_{}", wanted, ++suffixes_[wanted]);
  return name;
}

std::string OnnxModelWriter::new_node_name(const std::string& wanted) {
  std::string name = wanted;
  for (size_t i = 1; !nodes_.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
  return name;
}

std::string OnnxModelWriter::add_initializer(const std::string& wanted, const Tensor& tensor) {
  onnx::TensorProto& proto = *model_->mutable_graph()->add_initializer();
  set_tensor_type(onnx_element_type(tensor.dtype()), tensor.shape(), proto);
  return keep({&proto, tensor, ""}, wanted);
}

std::string OnnxModelWriter::add_initializer(const std::string& wanted, int64_t element_type,
                                             const Shape& shape, const std::string& bytes) {
  onnx::TensorProto& proto = *model_->mutable_graph()->add_initializer();
  set_tensor_type(element_type, shape, proto);
  return keep({&proto, Tensor(), bytes}, wanted);
}

std::string OnnxModelWriter::keep(Initializer initializer, const std::string& wanted) {
  std::string name = new_value(wanted);
  initializer.proto->set_name(name);
  initializer_places_[name] = initializers_.size();
  initializers_.push_back(std::move(initializer));
  return name;
}

std::vector<onnx::NodeProto> OnnxModelWriter::take_nodes() {
  auto& nodes = *model_->mutable_graph()->mutable_node();
  std::vector<onnx::NodeProto> taken(std::make_move_iterator(nodes.begin()),
                                     std::make_move_iterator(nodes.end()));
  nodes.Clear();
  return taken;
}

void OnnxModelWriter::add_node(onnx::NodeProto node) {
  if (!node.domain().empty()) domains_.insert(node.domain());
  *graph().add_node() = std::move(node);
}

onnx::GraphProto& OnnxModelWriter::graph() {
  return bodies_.empty() ? *model_->mutable_graph() : *bodies_.back();
}

void OnnxModelWriter::begin_body() {
  bodies_.push_back(std::make_shared<onnx::GraphProto>());
  bodies_.back()->set_name("body");
}

std::shared_ptr<onnx::GraphProto> OnnxModelWriter::end_body() {
  std::shared_ptr<onnx::GraphProto> body = std::move(bodies_.back());
  bodies_.pop_back();
  return body;
}

void OnnxModelWriter::drop_unread_initializers() {
  std::set<std::string> read;
  for (const onnx::NodeProto& node : model_->graph().node()) collect_reads(node, read);
  for (const std::string& output : output_names()) read.insert(output);
  auto& protos = *model_->mutable_graph()->mutable_initializer();
  std::vector<Initializer> kept;
  initializer_places_.clear();
  for (size_t i = 0; i < initializers_.size(); ++i) {
    if (!read.contains(protos[static_cast<int>(i)].name())) continue;
    const auto place = static_cast<int>(kept.size());
    protos.SwapElements(place, static_cast<int>(i));
    initializer_places_[protos[place].name()] = kept.size();
    kept.push_back(std::move(initializers_[i]));
  }
  protos.DeleteSubrange(static_cast<int>(kept.size()), protos.size() - static_cast<int>(kept.size()));
  initializers_ = std::move(kept);
}

std::vector<std::string> OnnxModelWriter::output_names() const {
  std::vector<std::string> names;
  for (const onnx::ValueInfoProto& output : model_->graph().output()) names.push_back(output.name());
  return names;
}

const OnnxModelWriter::Initializer* OnnxModelWriter::find_initializer(const std::string& name) const {
  const auto found = initializer_places_.find(name);
  return found == initializer_places_.end() ? nullptr : &initializers_[found->second];
}

int32_t OnnxModelWriter::element_type(const std::string& initializer) const {
  const Initializer* const found = find_initializer(initializer);
  return found == nullptr ? 0 : found->proto->data_type();
}

std::span<const std::byte> OnnxModelWriter::initializer_bytes(const std::string& initializer) const {
  const Initializer* const found = find_initializer(initializer);
  return found == nullptr ? std::span<const std::byte>() : found->data();
}

void OnnxModelWriter::add_input(const std::string& name, const TensorType& type) {
  set_type(name, type, *graph().add_input());
}

void OnnxModelWriter::add_output(const std::string& name, const TensorType& type) {
  set_type(name, type, *graph().add_output());
}

void OnnxModelWriter::add_input(const std::string& name, DType dtype) {
  set_element_type(name, dtype, *graph().add_input());
}

void OnnxModelWriter::add_output(const std::string& name, DType dtype) {
  set_element_type(name, dtype, *graph().add_output());
}

void OnnxModelWriter::add_node(const OnnxNode& node) {
  onnx::NodeProto& proto = *graph().add_node();
  proto.set_op_type(node.op);
  if (!node.domain.empty()) proto.set_domain(node.domain);
  if (!node.domain.empty()) domains_.insert(node.domain);
  proto.set_name(node.name);
  OnnxValues inputs = node.inputs;
  const size_t least = node.body != nullptr ? kLoopControls : 0;  // ONNX Runtime refuses fewer, empty or not
  while (inputs.size() > least && inputs.back().empty()) inputs.pop_back();
  for (const std::string& input : inputs) proto.add_input(input);
  for (const std::string& output : node.outputs) {
    proto.add_output(output);
    computed_.insert(output);
  }
  for (const TableEntry& entry : node.attributes) set_attribute(entry, *proto.add_attribute());
  if (node.body != nullptr) {
    onnx::AttributeProto& body = *proto.add_attribute();
    body.set_name("body");
    body.set_type(onnx::AttributeProto::GRAPH);
    *body.mutable_g() = *node.body;
  }
  if (!node.value) return;
  onnx::AttributeProto& attribute = *proto.add_attribute();
  attribute.set_name("value");
  attribute.set_type(onnx::AttributeProto::TENSOR);
  onnx::TensorProto& value = *attribute.mutable_t();
  set_tensor_type(onnx_element_type(node.value->dtype()), node.value->shape(), value);
  value.set_raw_data(node.value->bytes().data(), node.value->byte_size());
}

bool OnnxModelWriter::is_computed(const std::string& value) const { return computed_.contains(value); }

void OnnxModelWriter::rename_values(const std::map<std::string, std::string>& names) {
  const auto name_of = [&](const std::string& name) {
    const auto found = names.find(name);
    return found == names.end() ? name : found->second;
  };
  for (onnx::NodeProto& node : *model_->mutable_graph()->mutable_node()) {
    rename_reads(node, name_of);
    for (std::string& output : *node.mutable_output()) output = name_of(output);
  }
}

void rename_reads(onnx::NodeProto& node, const std::function<std::string(const std::string&)>& name_of) {
  for (std::string& input : *node.mutable_input()) input = name_of(input);
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
    if (!attribute.has_g()) continue;
    for (onnx::NodeProto& inner : *attribute.mutable_g()->mutable_node()) rename_reads(inner, name_of);
  }
}

std::span<const std::byte> OnnxModelWriter::Initializer::data() const {
  return bytes.empty() ? std::span<const std::byte>(tensor.bytes()) : std::as_bytes(std::span(bytes));
}

void OnnxModelWriter::put_data_into_model() {
  for (const Initializer& initializer : initializers_) {
    const auto data = initializer.data();
    initializer.proto->set_raw_data(data.data(), data.size());
  }
}

/// Small ones stay in the model, where tools that look at shapes find them.
void OnnxModelWriter::put_data_beside(OnnxWeightsFile& weights) {
  constexpr size_t kLeast = 1024;
  std::vector<std::span<const std::byte>> large;
  for (const Initializer& initializer : initializers_) {
    if (initializer.data().size() >= kLeast) large.push_back(initializer.data());
  }
  if (large.empty()) return put_data_into_model();
  const std::vector<uint64_t> begins = weights.write(large);
  auto begin = begins.begin();
  for (const Initializer& initializer : initializers_) {
    const auto data = initializer.data();
    if (data.size() < kLeast) {
      initializer.proto->set_raw_data(data.data(), data.size());
    } else {
      set_external(weights.name(), *begin++, data.size(), *initializer.proto);
    }
  }
}

void OnnxModelWriter::write(const std::filesystem::path& path, int64_t opset, uint64_t most_bytes_within) {
  model_->set_ir_version(ir_version(opset));
  model_->clear_opset_import();
  auto& standard = *model_->add_opset_import();
  standard.set_domain("");
  standard.set_version(opset);
  for (const std::string& domain : domains_) {
    auto& import = *model_->add_opset_import();
    import.set_domain(domain);
    import.set_version(1);
  }
  uint64_t bytes = 0;
  for (const Initializer& initializer : initializers_) bytes += initializer.data().size();
  OnnxWeightsFile weights(output_file(path));
  if (bytes > most_bytes_within) {
    put_data_beside(weights);
  } else {
    put_data_into_model();
  }
  if (model_->ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    fail("{}: {} bytes; a model in one file has at most {}", path.string(), model_->ByteSizeLong(),
         std::numeric_limits<int32_t>::max());
  }
  AtomicFile file(path);
  FileStream stream(file);
  {
    google::protobuf::io::CopyingOutputStreamAdaptor adaptor(&stream);
    DETENT_CHECK(model_->SerializeToZeroCopyStream(&adaptor), "model {}", path.string());
  }
  // A model that is there names its own weights until the new one takes its place.
  weights.commit();
  file.commit();
  weights.remove_replaced();
}

}  // namespace detent
