// Ten thousand damaged models in ONNX's format: none may crash the importer, keep it busy, or make it take
// memory that has nothing to do with the file. A program of its own, because it counts what is allocated.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "detent/core/error.h"
#include "detent/onnx/import_onnx.h"

#include "corrupted_files_for_test.h"
#include "counted_memory_for_test.h"
#include "onnx_seed_models.h"

namespace detent {
namespace {

constexpr unsigned kCorruptions = 10'000;
constexpr int64_t kFewBytes = int64_t{32} << 20;  // that any import may take

/// A field of a message of protobuf: a number, or bytes, which may be a message again.
struct Field {
  uint64_t number = 0;
  uint64_t wire_type = 0;
  uint64_t value = 0;
  std::string bytes;
};

constexpr uint64_t kVarint = 0;
constexpr uint64_t kFixed64 = 1;
constexpr uint64_t kBytes = 2;
constexpr uint64_t kFixed32 = 5;

std::optional<uint64_t> read_varint(std::string_view& text) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !text.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    value |= uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}

/// Nothing where the bytes are no message.
std::optional<std::vector<Field>> fields_of(std::string_view text) {
  std::vector<Field> fields;
  while (!text.empty()) {
    Field field;
    const auto tag = read_varint(text);
    if (!tag || *tag >> 3 == 0) return std::nullopt;
    field.number = *tag >> 3;
    field.wire_type = *tag & 7;
    size_t size = 0;
    if (field.wire_type == kVarint) {
      const auto value = read_varint(text);
      if (!value) return std::nullopt;
      field.value = *value;
    } else if (field.wire_type == kBytes) {
      const auto length = read_varint(text);
      if (!length || *length > text.size()) return std::nullopt;
      size = *length;
    } else if (field.wire_type == kFixed32 || field.wire_type == kFixed64) {
      size = field.wire_type == kFixed32 ? 4 : 8;
      if (size > text.size()) return std::nullopt;
    } else {
      return std::nullopt;
    }
    field.bytes = text.substr(0, size);
    text.remove_prefix(size);
    fields.push_back(std::move(field));
  }
  return fields;
}

std::string text_of(const std::vector<Field>& fields) {
  std::string text;
  for (const Field& field : fields) {
    text += varint(field.number << 3 | field.wire_type);
    if (field.wire_type == kVarint) text += varint(field.value);
    if (field.wire_type == kBytes) text += varint(field.bytes.size());
    text += field.bytes;
  }
  return text;
}

/// Changes fields of messages, so that what lies around them still fits: other numbers, fields twice,
/// missing, in another order, or with other bytes.
class FieldCorruption {
 public:
  explicit FieldCorruption(unsigned seed) : random_(seed), bytes_(seed) {}

  std::string apply(std::string text) {
    for (size_t i = 1 + below(3); i > 0; --i) text = changed(text);
    return text;
  }

 private:
  size_t below(size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random_); }

  std::string changed(const std::string& text) {
    auto fields = fields_of(text);
    if (!fields || fields->empty()) return bytes_.apply(text);
    Field& field = (*fields)[below(fields->size())];
    if (field.wire_type == kBytes && !field.bytes.empty() && below(5) != 0) {
      field.bytes = changed(field.bytes);
    } else {
      change(*fields, field);
    }
    return text_of(*fields);
  }
  void change(std::vector<Field>& fields, Field& field) {
    constexpr uint64_t kNumbers[] = {0,           1, 2, 3, 7, 16, 64, 1U << 16, 1U << 31, uint64_t{1} << 40,
                                     ~uint64_t{0}};
    const auto at = &field - fields.data();
    switch (below(6)) {
      case 0:
        fields.insert(fields.begin() + static_cast<int64_t>(below(fields.size())), Field(field));
        break;
      case 1:
        fields.erase(fields.begin() + at);
        break;
      case 2:
        std::swap(field, fields[below(fields.size())]);
        break;
      case 3:
        field.number = 1 + below(20);
        break;
      case 4:  // what stands in another field of the kind
        if (const Field& other = fields[below(fields.size())]; other.wire_type == field.wire_type) {
          field.bytes = other.bytes;
          field.value = other.value;
        }
        break;
      default:
        field.value = below(3) == 0 ? random_() : kNumbers[below(std::size(kNumbers))];
        if (field.wire_type != kVarint) field.bytes = bytes_.apply(field.bytes);
        if (field.wire_type == kFixed32) field.bytes.resize(4);
        if (field.wire_type == kFixed64) field.bytes.resize(8);
    }
  }

  std::mt19937 random_;
  Corruption bytes_;
};

struct Outcome {
  int read = 0;
  int refused = 0;
  int64_t most_memory = 0;
  double slowest = 0;  // CPU seconds
};

void import_once(const RewrittenFile& file, Outcome& outcome) {
  const double begin = cpu_seconds();
  const int64_t before = Memory::live();
  Memory::restart();
  try {
    import_onnx(file.path());
    ++outcome.read;
  } catch (const Error&) {
    ++outcome.refused;
  }
  outcome.most_memory = std::max(outcome.most_memory, Memory::peak() - before);
  outcome.slowest = std::max(outcome.slowest, cpu_seconds() - begin);
}

template <class Damage>
void expect_survival() {
  std::vector<std::string> models;
  for (const onnx::ModelProto& model : onnx_seed_models()) models.push_back(model.SerializeAsString());
  const RewrittenFile file;
  Outcome intact;
  for (const std::string& model : models) {
    file.write(model);
    import_once(file, intact);
  }
  ASSERT_EQ(intact.read, static_cast<int>(models.size()));
  Outcome outcome;
  for (unsigned seed = 0; seed < kCorruptions; ++seed) {
    const std::string text = Damage(seed).apply(models[seed % models.size()]);
    if (text.empty()) continue;
    file.write(text);
    import_once(file, outcome);
    ASSERT_LE(outcome.most_memory, std::max(4 * static_cast<int64_t>(text.size()), kFewBytes))
        << "seed " << seed;
    ASSERT_LT(outcome.slowest, 5 * kSlowdown) << "seed " << seed;
  }
  fmt::print("{} read, {} refused, at most {} bytes, {:.1f} ms\n", outcome.read, outcome.refused,
             outcome.most_memory, 1e3 * outcome.slowest);
  EXPECT_GT(outcome.read, static_cast<int>(kCorruptions) / 100);
  EXPECT_GT(outcome.refused, static_cast<int>(kCorruptions) / 10);
}

TEST(CorruptedOnnxModels, OfOtherBytes) { expect_survival<Corruption>(); }

TEST(CorruptedOnnxModels, OfOtherFields) { expect_survival<FieldCorruption>(); }

/// The memory that the import of a model takes, whether it is read or refused.
int64_t memory_of(const onnx::ModelProto& model) {
  const RewrittenFile file;
  file.write(model.SerializeAsString());
  Outcome outcome;
  import_once(file, outcome);
  import_once(file, outcome = {});
  EXPECT_LT(outcome.slowest, 10 * kSlowdown);
  return outcome.most_memory;
}

onnx::ModelProto model_of_one_input() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  auto& input = *model.mutable_graph()->add_input();
  input.set_name("x");
  input.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  input.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(2);
  model.mutable_graph()->add_output()->set_name("y");
  return model;
}

void add_node(onnx::GraphProto& graph, const char* op, std::initializer_list<const char*> inputs,
              const char* output) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  for (const char* input : inputs) node.add_input(input);
  node.add_output(output);
}

// Repeating one constant makes a large one, and again.
TEST(CorruptedOnnxModels, ThatRepeatConstants) {
  onnx::ModelProto model = model_of_one_input();
  onnx::TensorProto& one = *model.mutable_graph()->add_initializer();
  one.set_name("c0");
  one.set_data_type(onnx::TensorProto::FLOAT);
  one.add_dims(1);
  one.add_float_data(1);
  onnx::TensorProto& times = *model.mutable_graph()->add_initializer();
  times.set_name("times");
  times.set_data_type(onnx::TensorProto::INT64);
  times.add_dims(1);
  times.add_int64_data(4096);
  for (int i = 0; i < 3; ++i) {
    add_node(*model.mutable_graph(), "Tile", {fmt::format("c{}", i).c_str(), "times"},
             fmt::format("c{}", i + 1).c_str());
  }
  add_node(*model.mutable_graph(), "Add", {"x", "c3"}, "y");
  EXPECT_LE(memory_of(model), kFewBytes);
}

onnx::TensorProto& add_constant(onnx::GraphProto& graph, const char* name, onnx::TensorProto::DataType type,
                                std::initializer_list<int64_t> dims) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (const int64_t dim : dims) tensor.add_dims(dim);
  return tensor;
}

constexpr int64_t kBytesOfFewMegabytes = int64_t{100} << 20;  // that a file of up to 1 MB may take

// Forty times a value joined to itself: 2^41 numbers.
TEST(CorruptedOnnxModels, ThatDoubleConstants) {
  for (const auto type : {onnx::TensorProto::FLOAT, onnx::TensorProto::INT64}) {
    onnx::ModelProto model = model_of_one_input();
    onnx::TensorProto& two = add_constant(*model.mutable_graph(), "v0", type, {2});
    two.set_raw_data(std::string(type == onnx::TensorProto::FLOAT ? 8 : 16, '\0'));
    for (int i = 0; i < 40; ++i) {
      const std::string value = fmt::format("v{}", i);
      const std::string twice = fmt::format("v{}", i + 1);
      add_node(*model.mutable_graph(), "Concat", {value.c_str(), value.c_str()}, twice.c_str());
      model.mutable_graph()->mutable_node(i)->add_attribute()->set_name("axis");
      model.mutable_graph()->mutable_node(i)->mutable_attribute(0)->set_i(0);
    }
    add_node(*model.mutable_graph(), "Shape", {"v40"}, "y");
    EXPECT_LE(memory_of(model), kFewBytes);
  }
}

// Many constants that are small, which a few bytes each ask for.
TEST(CorruptedOnnxModels, ThatFillManyConstants) {
  onnx::ModelProto model = model_of_one_input();
  add_constant(*model.mutable_graph(), "size", onnx::TensorProto::INT64, {1}).add_int64_data(1024);
  for (int i = 0; i < 20'000; ++i)
    add_node(*model.mutable_graph(), "ConstantOfShape", {"size"}, fmt::format("v{}", i).c_str());
  add_node(*model.mutable_graph(), "Add", {"x", "v0"}, "y");
  EXPECT_LE(memory_of(model), kBytesOfFewMegabytes);
}

// One constant that is moved as often as there are nodes.
TEST(CorruptedOnnxModels, ThatMoveAConstantAgainAndAgain) {
  onnx::ModelProto model = model_of_one_input();
  add_constant(*model.mutable_graph(), "v0", onnx::TensorProto::FLOAT, {400, 400})
      .set_raw_data(std::string(size_t{4} * 400 * 400, '\0'));
  constexpr int kNodes = 8000;
  for (int i = 0; i < kNodes; ++i) {
    add_node(*model.mutable_graph(), "Transpose", {fmt::format("v{}", i).c_str()},
             fmt::format("v{}", i + 1).c_str());
  }
  add_node(*model.mutable_graph(), "Shape", {fmt::format("v{}", kNodes).c_str()}, "y");
  EXPECT_LE(memory_of(model), kBytesOfFewMegabytes);
}

TEST(CorruptedOnnxModels, OfTooManyInputsAndDimensions) {
  const auto refused = [](const onnx::ModelProto& model) {
    EXPECT_LE(memory_of(model), kBytesOfFewMegabytes);
    const RewrittenFile file;
    file.write(model.SerializeAsString());
    EXPECT_THROW(import_onnx(file.path()), Error);
  };
  onnx::ModelProto sum = model_of_one_input();
  add_node(*sum.mutable_graph(), "Sum", {}, "y");
  for (int i = 0; i < 100'000; ++i) sum.mutable_graph()->mutable_node(0)->add_input("x");
  refused(sum);
  onnx::ModelProto deep = model_of_one_input();
  auto& type = *deep.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
  for (int i = 0; i < 100'000; ++i) type.mutable_shape()->add_dim()->set_dim_value(1);
  add_node(*deep.mutable_graph(), "Relu", {"x"}, "y");
  refused(deep);
  onnx::ModelProto huge = model_of_one_input();
  onnx::TensorProto& sizes = add_constant(*huge.mutable_graph(), "sizes", onnx::TensorProto::INT64, {2});
  for (int i = 0; i < 2; ++i) sizes.add_int64_data((int64_t{1} << 31) - 1);
  add_node(*huge.mutable_graph(), "ConstantOfShape", {"sizes"}, "y");
  refused(huge);
}

// Each of forty functions calls the next one twice.
TEST(CorruptedOnnxModels, OfFunctionsThatStandForTooManyNodes) {
  onnx::ModelProto model = model_of_one_input();
  constexpr int kFunctions = 40;
  for (int i = 0; i <= kFunctions; ++i) {
    onnx::FunctionProto& function = *model.add_functions();
    function.set_domain("own");
    function.set_name(fmt::format("f{}", i));
    function.add_input("a");
    function.add_output("c");
    function.add_opset_import()->set_version(17);
    for (const auto& [input, output] : {std::pair("a", "b"), std::pair("b", "c")}) {
      onnx::NodeProto& node = *function.add_node();
      node.set_op_type(i == kFunctions ? "Neg" : fmt::format("f{}", i + 1));
      if (i < kFunctions) node.set_domain("own");
      node.add_input(input);
      node.add_output(output);
    }
  }
  add_node(*model.mutable_graph(), "f0", {"x"}, "y");
  model.mutable_graph()->mutable_node(0)->set_domain("own");
  const RewrittenFile file;
  file.write(model.SerializeAsString());
  EXPECT_THROW(import_onnx(file.path()), Error);
}

onnx::ModelProto model_of_many(int nodes) {
  onnx::ModelProto model = model_of_one_input();
  for (int i = 0; i < nodes / 5; ++i) {
    onnx::FunctionProto& function = *model.add_functions();
    function.set_domain("own");
    function.set_name(fmt::format("f{}", i));
  }
  for (int i = 0; i < nodes; ++i) {
    add_node(*model.mutable_graph(), i % 2 == 0 ? "Neg" : "Identity",
             {i == 0 ? "x" : fmt::format("v{}", i).c_str()},
             i + 1 == nodes ? "y" : fmt::format("v{}", i + 1).c_str());
  }
  return model;
}

/// CPU seconds of the import of a model of `nodes` nodes and a fifth as many functions: the least of three,
/// as other programs empty the caches.
double seconds_of(int nodes) {
  const RewrittenFile file;
  file.write(model_of_many(nodes).SerializeAsString());
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const double begin = cpu_seconds();
    EXPECT_EQ(import_onnx(file.path()).nodes().size(), nodes / 2 + 2);
    least = std::min(least, cpu_seconds() - begin);
  }
  return least;
}

// Not damaged, but large: sixteen times the nodes would take 256 times as long where time grew with their
// square. They leave the caches, which alone costs a factor of two or three.
TEST(CorruptedOnnxModels, OfManyNodesAndFunctions) { EXPECT_LT(seconds_of(80'000), 120 * seconds_of(5'000)); }

// Branches within branches, as deep as a message may be and deeper.
TEST(CorruptedOnnxModels, OfDeepBranches) {
  for (const int depth : {10, 30, 60, 1000}) {
    onnx::ModelProto model = model_of_one_input();
    onnx::TensorProto& condition = *model.mutable_graph()->add_initializer();
    condition.set_name("condition");
    condition.set_data_type(onnx::TensorProto::BOOL);
    condition.add_int32_data(1);
    onnx::GraphProto* graph = model.mutable_graph();
    for (int i = 0; i < depth; ++i) {
      add_node(*graph, "If", {"condition"}, "y");
      for (const char* name : {"else_branch", "then_branch"}) {
        onnx::AttributeProto& branch = *graph->mutable_node(0)->add_attribute();
        branch.set_name(name);
        branch.set_type(onnx::AttributeProto::GRAPH);
        branch.mutable_g()->add_output()->set_name("y");
      }
      add_node(*graph->mutable_node(0)->mutable_attribute(0)->mutable_g(), "Abs", {"x"}, "y");
      graph = graph->mutable_node(0)->mutable_attribute(1)->mutable_g();
    }
    add_node(*graph, "Neg", {"x"}, "y");
    const RewrittenFile file;
    file.write(model.SerializeAsString());
    if (depth == 10) {
      EXPECT_EQ(import_onnx(file.path()).nodes().size(), 3);
    } else if (depth > 33) {
      EXPECT_THROW(import_onnx(file.path()), Error) << depth;
    }
  }
}

}  // namespace
}  // namespace detent
