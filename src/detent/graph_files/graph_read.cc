#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "detent/core/error.h"
#include "detent/core/fields.h"
#include "detent/files/file.h"
#include "detent/files/gzip.h"
#include "detent/files/json.h"
#include "detent/graph/graph.h"
#include "detent/graph/operators.h"
#include "detent/graph_files/graph_file.h"
#include "detent/graph_files/graph_layout.h"
#include "detent/graph_files/packed_tensors.h"

namespace detent {
namespace {

/// One JSON object: hands out its members by kind and knows which nobody asked for.
class Members {
 public:
  Members(const Value& value, std::string where) : where_(std::move(where)) {
    table_ = value.get_if<Table>();
    if (table_ == nullptr) fail("{}: got {}, expected a table", where_, value.kind_name());
  }

  const std::string& where() const { return where_; }
  const Table& table() const { return *table_; }

  /// nullptr when absent.
  const Value* find(const char* key) {
    asked_.insert(key);
    return table_->find(key);
  }

  template <class T>
  T get(const char* key) {
    const Value* value = find(key);
    if (value == nullptr) fail("{}: \"{}\" is missing", where_, key);
    T result{};
    field_detail::from_value(*value, result, {}, fmt::format("{}: \"{}\"", where_, key));
    return result;
  }

  Members members(const char* key) {
    const Value* value = find(key);
    if (value == nullptr) fail("{}: \"{}\" is missing", where_, key);
    return {*value, fmt::format("{}: \"{}\"", where_, key)};
  }

  const List& list(const char* key) {
    const Value* value = find(key);
    const List* list = value == nullptr ? nullptr : value->get_if<List>();
    if (list == nullptr) fail("{}: \"{}\" is {}", where_, key, value == nullptr ? "missing" : "no list");
    return *list;
  }

  Value value(const char* key) {
    const Value* value = find(key);
    return value == nullptr ? Value() : *value;
  }

  void expect_no_others() const {
    for (const auto& [key, value] : *table_) {
      if (!asked_.contains(key)) fail("{}: unknown key \"{}\"", where_, key);
    }
  }

 private:
  std::string where_;
  const Table* table_ = nullptr;
  std::set<std::string, std::less<>> asked_;
};

TensorType read_type(Members type) {
  const auto dtype = type.get<std::string>("dtype");
  TensorType result;
  try {
    result.dtype = dtype_of_name(dtype);
  } catch (const Error& error) {
    fail("{}: \"dtype\": {}", type.where(), error.what());
  }
  for (const Value& size : type.list("shape")) {
    if (const auto* number = size.get_if<int64_t>()) {
      result.shape.emplace_back(*number);
    } else if (const auto* name = size.get_if<std::string>(); name != nullptr && !name->empty()) {
      result.shape.emplace_back(*name);
    } else if (size.is<Table>()) {
      Members named(size, type.where() + ": \"shape\"");
      const auto symbol = named.get<std::string>("name");
      const auto usual = named.get<int64_t>("usual_size");
      named.expect_no_others();
      if (symbol.empty() || usual < kOpenSize) fail("{}: got {}", named.where(), value_text(size));
      result.shape.emplace_back(symbol, usual);
    } else {
      fail("{}: \"shape\": got {}, expected a size or its name", type.where(), value_text(size));
    }
  }
  type.expect_no_others();
  return result;
}

std::vector<std::string> read_texts(Members& members, const char* key) {
  std::vector<std::string> texts;
  for (const Value& value : members.list(key)) {
    const auto* text = value.get_if<std::string>();
    if (text == nullptr) fail("{}: \"{}\": got {}, expected text", members.where(), key, value_text(value));
    texts.push_back(*text);
  }
  return texts;
}

std::vector<NodeInput> read_inputs(Members& node) {
  std::vector<NodeInput> result;
  for (const Value& value : node.list("inputs")) {
    Members input(value, node.where() + ": an input");
    if (input.find("node") != nullptr) {
      const bool is_first = input.find("result") == nullptr;
      const int64_t place = is_first ? 0 : input.get<int64_t>("result");
      if (place < 0) fail("{}: \"result\": got {}, expected at least 0", input.where(), place);
      result.push_back(NodeInput::of(input.get<std::string>("node"), static_cast<size_t>(place)));
      if (result.back().node.empty()) fail("{}: an empty node name", input.where());
    } else if (input.find("constant") != nullptr) {
      result.push_back(NodeInput::of_constant(input.value("constant")));
      if (result.back().constant.is_na()) fail("{}: a constant without a value", input.where());
    } else {
      result.push_back(NodeInput::absent());
    }
    input.expect_no_others();
  }
  return result;
}

class GraphReader {
 public:
  GraphReader(std::string name, SafetensorsFile file) : name_(std::move(name)), file_(std::move(file)) {
    file_.checksums.clear();  // all have been compared
  }

  Graph read() {
    check_kind();
    for (const auto& [name, tensor] : file_.tensors) tensors_.emplace(name, tensor);
    for (StoredTensor& tensor : unpack_tensors(file_, name_)) {
      std::string name = tensor.name;
      parameters_.emplace(std::move(name), std::move(tensor));
    }
    Value structure = parse_json(graph_text(), name_);
    const std::string& version = metadata("version");
    if (version == "1" || version == "2") graph_layout::upgrade_to_third(structure);
    if (version != std::to_string(graph_layout::kVersion)) graph_layout::upgrade_to_fourth(structure);
    Graph graph = read_structure(Members(structure, name_));
    for (const auto& [name, type] : graph.input_types()) {
      if (std::ranges::find(type.shape, kOpenSize, &Dimension::size) != type.shape.end())
        fail("{}: node \"{}\": an input of the network without a usual size", name_, name);
    }
    for (const auto& [name, tensor] : parameters_) {
      if (!used_.contains(name)) fail("{}: no node uses the tensor \"{}\"", name_, name);
    }
    naming(name_, [&] { verify(graph); });
    return graph;
  }

 private:
  Graph read_structure(Members top) {
    Graph graph(top.get<std::string>("name"));
    if (top.find("requantization") != nullptr) {
      graph.set_requantization(top.get<Requantization>("requantization"));
    }
    for (const Value& quantizer : top.list("quantizers")) {
      const std::string where = fmt::format("{}: quantizer {}", top.where(), quantizers_.size());
      quantizers_.emplace_back(read_quantizer(Members(quantizer, where)));
    }
    for (const Value& node : top.list("nodes")) add_node(graph, node);
    top.expect_no_others();
    return graph;
  }

  /// Its quantizers are its own.
  std::shared_ptr<const Graph> read_body(Members body) {
    std::vector<QuantizerRef> quantizers = std::exchange(quantizers_, {});
    auto graph = std::make_shared<const Graph>(read_structure(std::move(body)));
    quantizers_ = std::move(quantizers);
    return graph;
  }

  /// For errors that do not know the file.
  template <class Function>
  static void naming(const std::string& where, Function function) {
    try {
      function();
    } catch (const Error& error) {
      fail("{}: {}", where, error.what());
    }
  }

  void check_kind() const {
    const auto format = file_.metadata.find("format");
    if (format == file_.metadata.end() || format->second != graph_layout::kFormat) {
      fail("{}: not a graph but a safetensors file of another kind: format \"{}\", expected \"{}\"", name_,
           format == file_.metadata.end() ? "" : format->second, graph_layout::kFormat);
    }
    const std::string& version = metadata("version");
    if (version == "1") return check_first_version();
    if (version != "2" && version != "3" && version != std::to_string(graph_layout::kVersion)) {
      fail("{}: version {} of the graph format; this detent reads versions 1 to {}", name_, version,
           graph_layout::kVersion);
    }
  }

  std::string graph_text() {
    const auto compressed = tensors_.find(graph_layout::kGraphTensor);
    if (file_.metadata.contains("graph") || compressed == tensors_.end()) return metadata("graph");
    used_.insert(compressed->first);
    return read_gzip(compressed->second.bytes(), fmt::format("{}: tensor \"{}\"", name_, compressed->first),
                     graph_layout::kMostGraphBytes);
  }

  void check_first_version() const {
    const std::string expected = metadata("crc32");
    const std::string found = graph_layout::checksum(metadata("graph"), file_.tensors);
    if (found != expected) fail("{}: damaged: its CRC-32 is {}, the file says {}", name_, found, expected);
  }

  NodeStatistics read_statistics_of(Members parts) {
    NodeStatistics result;
    for (const auto& [side, operands] :
         {std::pair("args", &result.args), std::pair("results", &result.results)}) {
      const Members part = parts.members(side);
      for (const auto& [operand, value] : part.table()) {
        (*operands)[operand] =
            read_statistics(Members(value, fmt::format("{}: \"{}\"", part.where(), operand)));
      }
    }
    parts.expect_no_others();
    return result;
  }

  Table read_statistics(const Members& statistics) {
    Table result = statistics.table();
    for (auto& [key, value] : result)
      put_lists_back(value, fmt::format("{}: \"{}\"", statistics.where(), key));
    return result;
  }

  /// In place of the names of the tensors that hold them.
  void put_lists_back(Value& value, const std::string& where) {
    Table* table = value.get_if<Table>();
    if (table == nullptr) return;
    if (!table->contains(graph_layout::kTensorKey)) {
      for (auto& [key, entry] : *table) put_lists_back(entry, where);
      return;
    }
    Members reference(value, where);
    const Tensor& tensor = find_tensor(reference.get<std::string>(graph_layout::kTensorKey), where);
    reference.expect_no_others();
    Value list;
    naming(where, [&] { list = list_of_tensor(tensor); });
    value = std::move(list);
  }

  Quantizer read_quantizer(Members quantizer) {
    const auto format = quantizer.get<std::string>("format");
    Table keys = quantizer.members("keys").table();
    for (auto& [key, value] : keys) put_lists_back(value, fmt::format("{}: \"{}\"", quantizer.where(), key));
    Quantizer result = parse_quant_spec(format, keys, quantizer.where());
    if (quantizer.find("parameters") != nullptr) result.parameters = read_parameters(quantizer);
    take_former_settings(result, quantizer.where());
    if (quantizer.find("rounding") != nullptr) result.rounding = quantizer.get<Rounding>("rounding");
    if (quantizer.find("fold_batch_norm") != nullptr)
      result.norm_folding = quantizer.get<NormFolding>("fold_batch_norm");
    if (quantizer.find("observer") != nullptr) {
      const Members observer = quantizer.members("observer");
      read_fields(result.observer.emplace(), observer.table(), observer.where());
    }
    quantizer.expect_no_others();
    return result;
  }

  /// As it is or decoded; tied ones share their storage.
  Tensor find_parameter(const std::string& name, const std::string& where) {
    const auto found = parameters_.find(name);
    if (found == parameters_.end()) fail("{}: the file has no tensor \"{}\"", where, name);
    used_.insert(name);
    auto& content = found->second.content;
    if (const auto* codes = std::get_if<Encoded>(&content)) {
      naming(fmt::format("{}: tensor \"{}\"", where, name), [&] {
        Tensor values = decode(*codes);
        for (const EncodedStream& stream : codes->streams) release_pages(std::as_const(stream.data).bytes());
        content = std::move(values);
      });
    }
    return std::get<Tensor>(content);
  }

  const Tensor& find_tensor(const std::string& name, const std::string& where) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) fail("{}: the file has no tensor \"{}\"", where, name);
    used_.insert(name);
    return found->second;
  }

  const std::string& metadata(const std::string& key) const {
    const auto found = file_.metadata.find(key);
    if (found == file_.metadata.end()) fail("{}: the header has no \"{}\"", name_, key);
    return found->second;
  }

  /// Reads the parameters of a node or a quantizer.
  std::vector<std::pair<std::string, ParameterRef>> read_parameters(Members& owner) {
    std::vector<std::pair<std::string, ParameterRef>> result;
    for (const Value& value : owner.list("parameters")) {
      Members parameter(value, owner.where() + ": a parameter");
      const auto key = parameter.get<std::string>("tensor");
      const Parameter read{find_parameter(key, owner.where()), parameter.get<bool>("trainable")};
      const ParameterRef& shared = shared_.try_emplace(key, read).first->second;
      if (shared->trainable != read.trainable) {
        fail("{}: the parameter \"{}\", which nodes share, is trainable for some only", owner.where(), key);
      }
      result.emplace_back(parameter.get<std::string>("name"), shared);
      parameter.expect_no_others();
    }
    return result;
  }

  void read_quantization(const Members& operands, Node& node) {
    for (const auto& [operand, place] : operands.table()) {
      const auto* index = place.get_if<int64_t>();
      if (index == nullptr || *index < 0 || *index >= std::ssize(quantizers_)) {
        fail("{}: \"{}\": got {}, expected the place of one of {} quantizers", operands.where(), operand,
             value_text(place), quantizers_.size());
      }
      node.quantization.emplace(operand, quantizers_[static_cast<size_t>(*index)]);
    }
  }

  void add_node(Graph& graph, const Value& value) {
    Members members(value, fmt::format("{}: node {}", name_, graph.nodes().size()));
    Node node;
    node.name = members.get<std::string>("name");
    members = Members(value, fmt::format("{}: node \"{}\"", name_, node.name));
    members.find("name");
    node.op = members.get<std::string>("op");
    naming(members.where(), [&] { find_operator(node.op); });
    node.mase_type = members.get<MaseType>("mase_type");
    if (members.find("target") != nullptr) node.target = members.get<std::string>("target");
    node.inputs = read_inputs(members);
    node.attributes = members.members("attributes").table();
    node.parameters = read_parameters(members);
    if (members.find("quantization") != nullptr) read_quantization(members.members("quantization"), node);
    if (members.find("statistics") != nullptr) {
      node.statistics = read_statistics_of(members.members("statistics"));
    }
    if (members.find("source_names") != nullptr) node.source_names = read_texts(members, "source_names");
    if (members.find("body") != nullptr) node.body = read_body(members.members("body"));
    const bool is_input = members.find("input_type") != nullptr;
    const TensorType type = is_input ? read_type(members.members("input_type")) : TensorType();
    members.expect_no_others();
    naming(name_, [&] {
      if (is_input) {
        graph.add_input(node.name, type);
        graph.nodes().back() = std::move(node);
      } else {
        graph.add(std::move(node));
      }
    });
  }

  std::string name_;
  SafetensorsFile file_;
  std::map<std::string, Tensor, std::less<>> tensors_;           // of the file
  std::map<std::string, StoredTensor, std::less<>> parameters_;  // and what they stand for
  std::set<std::string, std::less<>> used_;
  std::map<std::string, ParameterRef, std::less<>> shared_;  // the same, as nodes refer to them
  std::vector<QuantizerRef> quantizers_;
};

}  // namespace

int64_t packed_parameter_count(const std::filesystem::path& path) {
  const SafetensorsFile header{{}, summarize_safetensors(path).metadata};
  return std::ssize(header.metadata) - std::ssize(plain_metadata(header));
}

Graph read_graph(const std::filesystem::path& path) {
  GraphReader reader(path.string(), read_safetensors(path));
  return reader.read();
}

}  // namespace detent
