#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "detent/core/convert.h"
#include "detent/core/error_of_for_test.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"
#include "detent/graph/graph_parameters.h"
#include "detent/graph/operators.h"
#include "detent/graph_files/graph_file.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/model_file.h"

#include "detent/onnx/model_for_test.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

Tensor counting(const Shape& shape, float first = 0) {
  Tensor tensor(DType::kFloat32, shape);
  std::ranges::generate(tensor.values<float>(), [&] { return first++; });
  return tensor;
}

std::vector<Tensor> run(const OnnxModelForTest& model, const std::vector<Tensor>& inputs,
                        const OnnxImportOptions& options = {}) {
  const Graph graph = import_onnx(model.write(), options);
  return IntegerExecutor().compile(graph)->run(inputs);
}

Floats floats(const Tensor& tensor) {
  const auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}

/// The only output of a model of one input, counted from `first`.
Tensor output_of(const OnnxModelForTest& model, const Shape& shape, float first = 0) {
  return run(model, {counting(shape, first)}).at(0);
}

std::string import_error(const OnnxModelForTest& model, const OnnxImportOptions& options = {}) {
  try {
    import_onnx(model.write(), options);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("model.onnx: "));
    return error.what();
  }
  return "";
}

/// A node that has a list as an attribute before that opset, and as its second input from then on.
struct ListOfNode {
  const char* op;
  const char* attribute;
  Ints list;
  int64_t input_since;
  Shape shape;
};

void PrintTo(const ListOfNode& list, std::ostream* out) { *out << list.op; }

class ListsThatBecameInputs : public testing::TestWithParam<ListOfNode> {};

TEST_P(ListsThatBecameInputs, AreReadAsBoth) {
  const ListOfNode& given = GetParam();
  std::vector<Tensor> results;
  for (const int64_t opset : {given.input_since - 1, given.input_since}) {
    OnnxModelForTest model(opset);
    model.input("x", {2, 3, 1});
    model.output("y");
    if (opset < given.input_since) {
      model.node(given.op, {"x"}, {"y"}, {{given.attribute, given.list}});
    } else {
      model.constant("list", {std::ssize(given.list)}, given.list);
      model.node(given.op, {"x", "list"}, {"y"});
    }
    results.push_back(output_of(model, {2, 3, 1}, 1));
    EXPECT_EQ(results.back().shape(), given.shape);
  }
  EXPECT_TRUE(results[0].equals(results[1]));
}

INSTANTIATE_TEST_SUITE_P(Onnx, ListsThatBecameInputs,
                         testing::Values(ListOfNode{"ReduceSum", "axes", {0}, 13, {1, 3, 1}},
                                         ListOfNode{"ReduceMean", "axes", {-2}, 18, {2, 1, 1}},
                                         ListOfNode{"ReduceMax", "axes", {0, 1}, 18, {1, 1, 1}},
                                         ListOfNode{"ReduceMin", "axes", {1}, 18, {2, 1, 1}},
                                         ListOfNode{"ReduceProd", "axes", {1}, 18, {2, 1, 1}},
                                         ListOfNode{"ReduceL1", "axes", {1}, 18, {2, 1, 1}},
                                         ListOfNode{"ReduceL2", "axes", {1}, 18, {2, 1, 1}},
                                         ListOfNode{"ReduceLogSum", "axes", {1}, 18, {2, 1, 1}},
                                         ListOfNode{"ReduceLogSumExp", "axes", {1}, 18, {2, 1, 1}},
                                         ListOfNode{"ReduceSumSquare", "axes", {1}, 18, {2, 1, 1}},
                                         ListOfNode{"Squeeze", "axes", {2}, 13, {2, 3}},
                                         ListOfNode{"Unsqueeze", "axes", {0, 4}, 13, {1, 2, 3, 1, 1}},
                                         ListOfNode{"Pad", "pads", {0, 1, 0, 0, 0, 2}, 11, {2, 4, 3}}),
                         [](const auto& list) { return std::string(list.param.op); });

TEST(OnnxImport, SplitTakesSizesAsAttributeAsInputOrFromItsOutputs) {
  const auto parts = [](int64_t opset, bool sizes) {
    OnnxModelForTest model(opset);
    model.input("x", {2, 5});
    for (const char* name : {"a", "b"}) model.output(name);
    std::vector<OnnxAttribute> attributes = {{"axis", 1}};
    std::vector<std::string> inputs = {"x"};
    constexpr int64_t kIsInput = 13;
    if (sizes && opset < kIsInput) attributes.emplace_back("split", Ints{1, 4});
    if (sizes && opset >= kIsInput) {
      model.constant<int64_t>("sizes", {2}, {1, 4});
      inputs.emplace_back("sizes");
    }
    if (!sizes) attributes.emplace_back("num_outputs", 2);
    model.node("Split", inputs, {"a", "b"}, attributes);
    return run(model, {counting({2, 5})});
  };
  EXPECT_THAT(floats(parts(11, true)[1]), ElementsAre(1, 2, 3, 4, 6, 7, 8, 9));
  EXPECT_THAT(floats(parts(13, true)[1]), ElementsAre(1, 2, 3, 4, 6, 7, 8, 9));
  EXPECT_THAT(floats(parts(18, false)[1]), ElementsAre(3, 4, 8, 9));
}

TEST(OnnxImport, BoundsOfClipAreAttributesAndThenInputsThatMayBeMissing) {
  OnnxModelForTest old(10);
  old.input("x", {4});
  old.output("y");
  old.node("Clip", {"x"}, {"y"}, {{"max", 2.5F}});
  EXPECT_THAT(floats(output_of(old, {4})), ElementsAre(0, 1, 2, 2.5));
  OnnxModelForTest model(11);
  model.input("x", {4});
  model.output("y");
  model.constant<float>("low", {}, {1.5});
  model.node("Clip", {"x", "low"}, {"z"});
  model.constant<float>("high", {}, {2.5});
  model.node("Clip", {"z", "", "high"}, {"y"});
  EXPECT_THAT(floats(output_of(model, {4})), ElementsAre(1.5, 1.5, 2, 2.5));
}

TEST(OnnxImport, BoundsOfSliceAreAttributesAndThenInputs) {
  OnnxModelForTest old(9);
  old.input("x", {2, 4});
  old.output("y");
  old.node("Slice", {"x"}, {"y"}, {{"axes", Ints{1}}, {"starts", Ints{-3}}, {"ends", Ints{1000}}});
  EXPECT_THAT(floats(output_of(old, {2, 4})), ElementsAre(1, 2, 3, 5, 6, 7));
  OnnxModelForTest model(10);
  model.input("x", {2, 4});
  model.output("y");
  model.constant<int64_t>("starts", {1}, {-1});
  model.constant<int64_t>("ends", {1}, {-1000});
  model.constant<int64_t>("axes", {1}, {1});
  model.constant<int64_t>("steps", {1}, {-2});
  model.node("Slice", {"x", "starts", "ends", "axes", "steps"}, {"y"});
  EXPECT_THAT(floats(output_of(model, {2, 4})), ElementsAre(3, 1, 7, 5));
}

TEST(OnnxImport, DropoutPassesItsInputOn) {
  for (const int64_t opset : {7, 10, 13}) {
    OnnxModelForTest model(opset);
    model.input("x", {3});
    model.output("y");
    constexpr int64_t kRatioIsInput = 12;
    if (opset < kRatioIsInput) {
      model.node("Dropout", {"x"}, {"y"}, {{"ratio", 0.5F}});
    } else {
      model.constant<float>("ratio", {}, {0.5});
      model.node("Dropout", {"x", "ratio"}, {"y"});
    }
    EXPECT_THAT(floats(output_of(model, {3})), ElementsAre(0, 1, 2));
  }
}

TEST(OnnxImport, DropoutThatARunAsksForIsAnError) {
  OnnxModelForTest model(13);
  model.input("x", {3});
  model.input("ratio", {});
  model.input("training", {}, onnx::TensorProto::BOOL);
  model.output("y");
  model.node("Dropout", {"x", "ratio", "training"}, {"y"});
  const auto with = [&](float ratio) {
    Tensor training(DType::kBool, {});
    training.values<bool>()[0] = true;
    return floats(run(model, {counting({3}), Tensor::from({}, Floats{ratio}), training}).at(0));
  };
  EXPECT_THAT(with(0), ElementsAre(0, 1, 2));
  EXPECT_THROW(with(0.5), Error);
}

TEST(OnnxImport, SoftmaxBeforeOpset13IsOverAllDimensionsFromItsAxisOn) {
  const auto sum = [](int64_t opset) {
    OnnxModelForTest model(opset);
    model.input("x", {2, 3, 4});
    model.output("y");
    model.node("Softmax", {"x"}, {"y"}, {{"axis", 1}});
    const Floats result = floats(output_of(model, {2, 3, 4}));
    return std::accumulate(result.begin(), result.end(), 0.0F);
  };
  EXPECT_NEAR(sum(12), 2, 1e-5);
  EXPECT_NEAR(sum(13), 8, 1e-5);
}

TEST(OnnxImport, WindowsOfIntegersMayHaveABorderOnOneSide) {
  OnnxModelForTest model(17);
  model.input("x", {1, 1, 3}, onnx::TensorProto::INT8);
  model.output("y");
  model.node("MaxPool", {"x"}, {"y"}, {{"kernel_shape", Ints{2}}, {"auto_pad", "SAME_UPPER"}});
  const Tensor y = run(model, {Tensor::from({1, 1, 3}, std::vector<int8_t>{-3, -7, -9})}).at(0);
  EXPECT_TRUE(y.equals(Tensor::from({1, 1, 3}, std::vector<int8_t>{-3, -7, -9})));
}

TEST(OnnxImport, UpsampleAndTheFirstResizeTakeScales) {
  const auto result = [](int64_t opset, const char* op) {
    OnnxModelForTest model(opset);
    model.input("x", {1, 1, 1, 2});
    model.output("y");
    const Floats scales = {1, 1, 1, 2};
    if (opset < 9) {
      model.node(op, {"x"}, {"y"}, {{"scales", scales}});
    } else {
      model.constant("scales", {4}, scales);
      model.node(op, {"x", "scales"}, {"y"});
    }
    return floats(output_of(model, {1, 1, 1, 2}));
  };
  EXPECT_THAT(result(7, "Upsample"), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(result(9, "Upsample"), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(result(10, "Resize"), ElementsAre(0, 0, 1, 1));
}

TEST(OnnxImport, ResizeOfOpset18ListsItsAxesAndKeepsTheAspectRatio) {
  OnnxModelForTest model(18);
  model.input("x", {1, 1, 2, 4});
  model.output("y");
  model.constant<int64_t>("sizes", {2}, {8, 6});
  model.node("Resize", {"x", "", "", "sizes"}, {"y"},
             {{"axes", Ints{3, 2}}, {"keep_aspect_ratio_policy", "not_larger"}, {"mode", "linear"}});
  EXPECT_EQ(output_of(model, {1, 1, 2, 4}).shape(), (Shape{1, 1, 4, 8}));
}

TEST(OnnxImport, FunctionsAreWrittenOutWithTheAttributesOfTheirCall) {
  OnnxModelForTest model(17);
  auto& own = *model.proto.add_opset_import();
  own.set_domain("own");
  own.set_version(1);
  onnx::FunctionProto& function = *model.proto.add_functions();
  function.set_domain("own");
  function.set_name("LeakyTwice");
  function.add_input("a");
  function.add_output("b");
  function.add_attribute("slope");
  auto& import = *function.add_opset_import();
  import.set_version(17);
  *function.add_node() = onnx_node("LeakyRelu", {"a"}, {"inner"});
  auto& reference = *function.mutable_node(0)->add_attribute();
  reference.set_name("alpha");
  reference.set_ref_attr_name("slope");
  reference.set_type(onnx::AttributeProto::FLOAT);
  *function.add_node() = onnx_node("Add", {"inner", "inner"}, {"b"});
  model.input("x", {2});
  model.output("y");
  for (const auto& [from, to, slope] : {std::tuple("x", "z", 0.5F), std::tuple("z", "y", 0.25F)})
    model.node("LeakyTwice", {from}, {to}, {{"slope", slope}}).set_domain("own");
  EXPECT_THAT(floats(output_of(model, {2}, -1)), ElementsAre(-0.5, 0));
  function.mutable_node(1)->set_op_type("LeakyTwice");
  function.mutable_node(1)->set_domain("own");
  function.mutable_node(1)->mutable_input()->RemoveLast();
  EXPECT_THAT(import_error(model), HasSubstr("deep within one another"));
}

TEST(OnnxImport, OnlyTheBranchThatAConstantChoosesIsRead) {
  const auto branch = [](const char* op) {
    onnx::GraphProto graph;
    graph.set_name(op);
    *graph.add_node() = onnx_node(op, {"x"}, {std::string("of_") + op});
    graph.add_output()->set_name(std::string("of_") + op);
    return graph;
  };
  for (const bool condition : {false, true}) {
    OnnxModelForTest model(17);
    model.input("x", {2});
    model.output("y");
    onnx::TensorProto chosen = onnx_tensor<uint8_t>("condition", {}, {condition ? uint8_t{1} : uint8_t{0}});
    chosen.set_data_type(onnx::TensorProto::BOOL);
    *model.graph().add_initializer() = chosen;
    model.node("If", {"condition"}, {"y"}, {{"then_branch", branch("Neg")}, {"else_branch", branch("Abs")}});
    EXPECT_EQ(floats(output_of(model, {2}, 1)), condition ? (Floats{-1, -2}) : (Floats{1, 2}));
  }
}

/// x times weights that lie in a file.
void place_weights(OnnxModelForTest& model, const std::vector<std::pair<std::string, std::string>>& entries) {
  model.input("x", {2});
  model.output("y");
  auto& weights = *model.graph().add_initializer();
  weights.set_name("weights");
  weights.add_dims(2);
  weights.set_data_type(onnx::TensorProto::FLOAT);
  weights.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : entries) {
    auto& entry = *weights.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  model.node("Mul", {"x", "weights"}, {"y"});
  model.write();
  std::filesystem::create_directories(model.folder / "below");
  const float numbers[] = {9, 2, 3};
  const std::filesystem::path outside = model.folder.string() + "_outside.bin";
  for (const auto& file : {model.folder / "weights.bin", model.folder / "below" / "weights.bin", outside})
    std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(numbers), sizeof(numbers));
}

TEST(OnnxImport, WeightsMayLieInFilesOfTheModelsFolder) {
  for (const char* location : {"weights.bin", "below/weights.bin", "below/../weights.bin"}) {
    OnnxModelForTest model(17);
    place_weights(model, {{"location", location}, {"offset", "4"}, {"length", "8"}});
    EXPECT_THAT(floats(output_of(model, {2}, 1)), ElementsAre(2, 6));
  }
}

TEST(OnnxImport, WeightsElsewhereOrBeyondAFileAreErrors) {
  const auto error = [](std::string location, const char* offset, const char* length) {
    OnnxModelForTest model(17);
    if (location == "outside") location = "../" + model.folder.filename().string() + "_outside.bin";
    place_weights(model, {{"location", location}, {"offset", offset}, {"length", length}});
    std::filesystem::create_symlink(model.folder.string() + "_outside.bin", model.folder / "link.bin");
    const std::string text = import_error(model);
    std::filesystem::remove(model.folder.string() + "_outside.bin");
    return text;
  };
  for (const char* location : {"outside", "link.bin", "/etc/passwd", "", "below/../../model.onnx"})
    EXPECT_THAT(error(location, "0", "8"), HasSubstr("not in the model's folder")) << location;
  for (const auto& [offset, length] : {std::pair("8", "8"), std::pair("0", "12"), std::pair("-4", "8"),
                                       std::pair("18446744073709551615", "8"), std::pair("x", "8")})
    EXPECT_THAT(error("weights.bin", offset, length), HasSubstr("does not fit")) << offset;
  EXPECT_THAT(error("left.data", "0", "8"),
              AllOf(HasSubstr("\"weights\" lies in \"left.data\", which is missing in "),
                    HasSubstr("copy it there with the model")));
}

TEST(OnnxImport, SixteenBitFloatsAreWidenedAndNarrowed) {
  OnnxModelForTest model(17);
  model.input("x", {2}, onnx::TensorProto::FLOAT16);
  model.output("y", {2}, onnx::TensorProto::FLOAT16);
  onnx::TensorProto weights = onnx_tensor<uint8_t>("weights", {2}, {});
  weights.set_data_type(onnx::TensorProto::FLOAT16);
  for (const int bits : {0x3e00, 0xc000}) weights.add_int32_data(bits);  // 1.5 and -2
  *model.graph().add_initializer() = weights;
  model.node("Mul", {"x", "weights"}, {"y"});
  Tensor x(DType::kFloat16, {2});
  const uint16_t bits[] = {0x4000, 0x4200};  // 2 and 3
  std::memcpy(x.bytes().data(), bits, sizeof(bits));
  const Tensor y = run(model, {x}).at(0);
  EXPECT_EQ(y.dtype(), DType::kFloat16);
  EXPECT_THAT(floats(to_float32(y)), ElementsAre(3, -6));
}

TEST(OnnxImport, BytesOfTruthThatAreNotZeroAreOne) {
  OnnxModelForTest model(17);
  model.input("x", {3});
  model.output("y");
  onnx::TensorProto mask = onnx_tensor<uint8_t>("mask", {3}, {});
  mask.set_data_type(onnx::TensorProto::BOOL);
  mask.set_raw_data(std::string("\0\2\xff", 3));
  *model.graph().add_initializer() = mask;
  model.node("Cast", {"mask"}, {"factors"}, {{"to", 1}});
  model.node("Mul", {"x", "factors"}, {"y"});
  EXPECT_THAT(floats(output_of(model, {3}, 5)), ElementsAre(0, 6, 7));
}

TEST(OnnxImport, SaysWhatIsMissingOrDoesNotFit) {
  OnnxModelForTest missing(17);
  missing.input("x", {2});
  missing.output("y");
  missing.node("Mul", {"x", "weights"}, {"y"});
  EXPECT_THAT(import_error(missing), HasSubstr("node \"y_node\" (Mul): reads \"weights\", which is neither"));

  OnnxModelForTest silent(17);
  silent.input("x", {2});
  silent.output("y");
  silent.node("Neg", {"x"}, {"y"});
  silent.node("Dropout", {"x"}, {"drop"}).clear_output();
  EXPECT_THAT(import_error(silent), HasSubstr("node \"drop_node\" (Dropout): it has no output"));

  OnnxModelForTest shapeless(17);
  shapeless.input("x", {1, 1, 4, 4});
  shapeless.output("y");
  shapeless.constant<float>("w", {1, 1, 2, 2}, {1, 2, 3, 4});
  shapeless.node("ConvTranspose", {"x", "w"}, {"y"}, {{"output_shape", std::vector<int64_t>{5}}});
  EXPECT_THAT(import_error(shapeless), HasSubstr("output_shape has 1 numbers, expected 2"));

  OnnxModelForTest cyclic(17);
  cyclic.input("x", {2});
  cyclic.output("y");
  cyclic.node("Add", {"x", "y"}, {"z"});
  cyclic.node("Neg", {"z"}, {"y"});
  EXPECT_THAT(import_error(cyclic), HasSubstr("reads \"y\", which is neither"));

  OnnxModelForTest shapes(17);
  shapes.input("x", {2});
  shapes.output("y");
  shapes.constant<float>("weights", {3}, {1, 2, 3});
  shapes.node("Mul", {"x", "weights"}, {"y"});
  EXPECT_THAT(import_error(shapes), HasSubstr("do not broadcast"));

  OnnxModelForTest twice(17);
  twice.input("x", {2});
  twice.output("y");
  twice.node("Neg", {"x"}, {"y"});
  twice.node("Abs", {"x"}, {"y"});
  EXPECT_THAT(import_error(twice), HasSubstr("gives \"y\", which is given already"));

  OnnxModelForTest nothing(17);
  nothing.input("x", {2});
  EXPECT_THAT(import_error(nothing), HasSubstr("the graph has no outputs"));
}

TEST(OnnxImport, NamesInputsAndOutputsOfOtherTypes) {
  OnnxModelForTest input(17);
  input.input("x", {2}, onnx::TensorProto::STRING);
  input.output("y");
  input.node("Identity", {"x"}, {"y"});
  EXPECT_THAT(import_error(input),
              AllOf(HasSubstr("model.onnx: input \"x\": tensors of STRING are not supported"),
                    HasSubstr("export the network without what reads them")));
  OnnxModelForTest output(17);
  output.input("x", {2});
  output.output("y", {2}, onnx::TensorProto::COMPLEX64);
  output.node("Neg", {"x"}, {"y"});
  EXPECT_THAT(import_error(output),
              HasSubstr("model.onnx: output \"y\": tensors of COMPLEX64 are not supported"));
}

TEST(OnnxImport, ListsAllOperatorsThatAreNotSupported) {
  OnnxModelForTest model(17);
  model.input("x", {2});
  model.output("y");
  model.node("StringNormalizer", {"x"}, {"z"});
  model.node("Fancy", {"z"}, {"y"}).set_domain("own");
  EXPECT_THAT(import_error(model), testing::AllOf(HasSubstr("operators of 2 nodes"),
                                                  HasSubstr("\"z_node\" (StringNormalizer), opset 17"),
                                                  HasSubstr("\"y_node\" (own.Fancy), opset 0")));
}

TEST(OnnxImport, NamesBecomeIdentifiersAndStayUnique) {
  OnnxModelForTest model(17);
  model.input("in/put:0", {2});
  model.output("out put");
  model.node("Neg", {"in/put:0"}, {"a.b"}).set_name("/layer.1/Neg");
  model.node("Neg", {"a.b"}, {"a/b"}).set_name("/layer/1/Neg");
  model.node("Neg", {"a/b"}, {"c"}).set_name("output");
  model.node("Neg", {"c"}, {"out put"}).clear_name();
  const Graph graph = import_onnx(model.write());
  EXPECT_THAT(graph.node_names(),
              ElementsAre("in_put_0", "_layer_1_Neg", "_layer_1_Neg_1", "output_1", "out_put", "output"));
  EXPECT_THAT(graph.node("in_put_0").source_names, ElementsAre("in/put:0"));
  EXPECT_THAT(graph.node("_layer_1_Neg_1").source_names, ElementsAre("a/b"));
  EXPECT_THAT(graph.node("output").source_names, ElementsAre("out put"));
}

/// Exporters store equal tensors once: here the bias of both layers, whose name then stood for both weights.
TEST(OnnxImport, LayersThatShareABiasHaveParametersOfTheirOwnNames) {
  OnnxModelForTest model(17);
  model.input("x", {1, 2});
  model.output("y");
  model.constant<float>("first_weight", {2, 2}, {1, 2, 3, 4});
  model.constant<float>("second_weight", {2, 2}, {5, 6, 7, 8});
  model.constant<float>("block.bias", {2}, {0.5F, -0.5F});
  model.node("MatMul", {"x", "first_weight"}, {"a"});
  model.node("Add", {"a", "block.bias"}, {"b"});
  model.node("MatMul", {"b", "second_weight"}, {"c"});
  model.node("Add", {"c", "block.bias"}, {"y"});
  const Graph graph = import_onnx(model.write());
  std::set<std::string> keys;
  for (const auto& [key, tensor] : state_dict(graph)) EXPECT_TRUE(keys.insert(key).second) << key;
  EXPECT_TRUE(keys.contains("block.weight"));
}

TEST(OnnxImport, ShapesOfOpenInputsCanBeGiven) {
  OnnxModelForTest model(17);
  model.input("x", {-1, -2});
  model.output("y");
  model.node("Shape", {"x"}, {"shape"});
  model.node("ConstantOfShape", {"shape"}, {"zeros"});
  model.node("Add", {"x", "zeros"}, {"y"});
  EXPECT_THAT(floats(run(model, {counting({1, 3})}).at(0)), ElementsAre(0, 1, 2));
  EXPECT_THAT(floats(run(model, {counting({2, 1})}, {.shapes = {{"x", {2, 1}}}}).at(0)), ElementsAre(0, 1));
  EXPECT_THAT(import_error(model, {.shapes = {{"x", {2}}}}), HasSubstr("expected one that fits"));
  EXPECT_THAT(import_error(model, {.shapes = {{"x", {3, -1}}}}),
              HasSubstr("got the shape [3, -1], expected one that fits float32 [N, "));
  EXPECT_THAT(import_error(model, {.shapes = {{"z", {2}}}}), HasSubstr("\"z\""));
}

/// Windows that sizes of 1 do not hold, nor those that are tried first; and a table of fewer positions.
TEST(OnnxImport, OpenSizesAreThoseThatTheNetworkTakes) {
  OnnxModelForTest windows(17);
  windows.input("x", {1, 1, -2});
  windows.output("y");
  windows.constant<float>("w", {2, 1, 500}, Floats(1000, 1));
  windows.node("Conv", {"x", "w"}, {"y"}, {{"strides", Ints{100}}});
  EXPECT_EQ(run(windows, {counting({1, 1, 700})}).at(0).shape(), (Shape{1, 2, 3}));

  OnnxModelForTest positions(17);
  positions.input("x", {1, -2, 3});
  positions.output("y");
  positions.constant<float>("table", {1, 40, 3}, Floats(120, 1));
  for (const int64_t at : {0, 1}) positions.constant<int64_t>(at == 0 ? "zero" : "one", {1}, {at});
  positions.constant<int64_t>("two", {1}, {2});
  positions.node("Shape", {"x"}, {"shape"});
  positions.node("Slice", {"shape", "one", "two"}, {"length"});
  positions.node("Slice", {"table", "zero", "length", "one"}, {"used"});
  positions.node("Add", {"x", "used"}, {"y"});
  const Graph graph = import_onnx(positions.write());
  for (const int64_t length : {1, 7, 40}) {
    const Tensor input = counting({1, length, 3});
    EXPECT_EQ(IntegerExecutor().compile(graph)->run({&input, 1}).at(0).values<float>().back(),
              static_cast<float>(3 * length));
  }
}

/// Exporters name the batch of each input on its own, and call other sizes N.
TEST(OnnxImport, NamesOfOpenSizesDoNotCollide) {
  OnnxModelForTest model(17);
  model.input("x", {-1, -2, 3});
  model.input("y", {-3, -2, 3});
  for (int i = 0; i < 2; ++i) {
    auto* shape = model.graph().mutable_input(i)->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->mutable_dim(0)->set_dim_param(i == 0 ? "steps" : "steps_of_y");
    shape->mutable_dim(1)->set_dim_param("N");
  }
  model.node("Add", {"x", "y"}, {"z"});
  model.output("z");
  EXPECT_EQ(run(model, {counting({5, 2, 3}), counting({5, 2, 3})}).at(0).shape(), (Shape{5, 2, 3}));
}

/// A node of x [N, 8, height, width], which converters read otherwise where height and width are numbers.
struct NodeOfOpenSizes {
  const char* op;
  std::vector<OnnxAttribute> attributes;
  Shape weight = {};
  size_t outputs = 1;
};

void PrintTo(const NodeOfOpenSizes& node, std::ostream* out) { *out << node.op; }

class OpenSizesOfNodes : public testing::TestWithParam<NodeOfOpenSizes> {};

TEST_P(OpenSizesOfNodes, GiveWhatGivenOnesDo) {
  const NodeOfOpenSizes& node = GetParam();
  OnnxModelForTest model(13);
  model.input("x", {-1, 8, -2, -3});
  std::vector<std::string> inputs = {"x"};
  if (!node.weight.empty()) {
    const Tensor weight = counting(node.weight, -10);
    model.constant<float>("w", node.weight, floats(weight));
    inputs.emplace_back("w");
  }
  std::vector<std::string> outputs = {"y"};
  for (size_t i = 1; i < node.outputs; ++i) outputs.push_back(fmt::format("y{}", i));
  for (const std::string& output : outputs) model.output(output);
  model.node(node.op, inputs, outputs, node.attributes);
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>(6, 4), {12, 10}, {8, 14}}) {
    const Shape shape = {2, 8, height, width};
    const std::vector<Tensor> open = run(model, {counting(shape, -50)});
    const std::vector<Tensor> given = run(model, {counting(shape, -50)}, {.shapes = {{"x", shape}}});
    for (size_t i = 0; i < node.outputs; ++i)
      EXPECT_TRUE(open[i].equals(given[i])) << height << " x " << width;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Converters, OpenSizesOfNodes,
    testing::Values(
        NodeOfOpenSizes{"DepthToSpace", {{"blocksize", 2}}},
        NodeOfOpenSizes{"DepthToSpace", {{"blocksize", 2}, {"mode", "CRD"}}},
        NodeOfOpenSizes{"SpaceToDepth", {{"blocksize", 2}}}, NodeOfOpenSizes{"Flatten", {{"axis", 2}}},
        NodeOfOpenSizes{"Split", {{"axis", 2}}, {}, 3},
        NodeOfOpenSizes{"Conv", {{"auto_pad", "SAME_UPPER"}, {"strides", Ints{2, 3}}}, {4, 8, 3, 4}},
        NodeOfOpenSizes{"Conv", {{"auto_pad", "SAME_LOWER"}, {"strides", Ints{2, 2}}}, {4, 8, 3, 2}},
        NodeOfOpenSizes{"Conv", {{"auto_pad", "SAME_UPPER"}, {"strides", Ints{3, 4}}}, {4, 8, 1, 1}},
        NodeOfOpenSizes{"Conv", {{"auto_pad", "SAME_LOWER"}}, {4, 8, 2, 4}},
        NodeOfOpenSizes{"MaxPool",
                        {{"auto_pad", "SAME_UPPER"}, {"strides", Ints{2, 2}}, {"kernel_shape", Ints{3, 3}}}},
        NodeOfOpenSizes{
            "ConvTranspose", {{"auto_pad", "SAME_UPPER"}, {"strides", Ints{2, 2}}}, {8, 3, 3, 3}}));

TEST(OnnxImport, AllRefusedNodesAreListed) {
  OnnxModelForTest model(17);
  model.input("x", {2, 3});
  model.constant("c", {3, 3}, Floats(9));
  model.node("Concat", {"x", "c"}, {"a"}, {{"axis", 1}});
  model.node("Relu", {"a"}, {"b"});
  model.node("Transpose", {"x"}, {"d"}, {{"perm", Ints{0, 0}}});
  model.node("Add", {"b", "d"}, {"y"});
  model.output("y");
  const std::string message = import_error(model);
  EXPECT_THAT(message, testing::AllOf(HasSubstr("2 nodes are refused:\n  node \"a_node\" (Concat)"),
                                      HasSubstr("\n  node \"d_node\" (Transpose)")));
  EXPECT_EQ(message.find("b_node"), std::string::npos) << "it needs what another gives";
}

TEST(OnnxImport, RefusedOperatorsNameTheOptionThatAvoidsThem) {
  OnnxModelForTest model(17);
  model.input("x", {2, 3});
  model.output("y");
  model.node("EfficientNMS_TRT", {"x"}, {"y"});
  model.graph().mutable_node(0)->set_domain("TRT");
  EXPECT_THAT(import_error(model), HasSubstr("(TRT.EfficientNMS_TRT), opset 0: it is TensorRT's: export"));
}

/// A size that the shape of one input gives holds for the dimensions of that name in the others.
TEST(OnnxImport, SizesOfOneInputHoldForOthers) {
  OnnxModelForTest model(17);
  model.input("mask", {-1, -2});
  model.input("x", {-1, -2});
  model.output("y");
  model.node("Shape", {"mask"}, {"shape"});
  model.node("Reshape", {"x", "shape"}, {"same"});
  model.node("Add", {"mask", "same"}, {"y"});
  const OnnxImportOptions options{.shapes = {{"x", {1, 3}}}};
  EXPECT_THAT(floats(run(model, {counting({1, 3}), counting({1, 3})}, options).at(0)), ElementsAre(0, 2, 4));
  EXPECT_THAT(import_error(model, {.shapes = {{"x", {1, 3}}, {"mask", {1, 4}}}}),
              HasSubstr("expected one that fits"));
}

/// 2 times the sizes of an image, as exporters write it.
TEST(OnnxImport, ArithmeticWithShapesIsDoneOnce) {
  OnnxModelForTest model(17);
  model.input("x", {-1, 1, 2, 3});
  model.output("y");
  model.constant<int64_t>("two", {}, {2});
  model.constant<int64_t>("from", {1}, {2});
  model.constant<int64_t>("to", {1}, {4});
  model.constant<int64_t>("zero", {1}, {0});
  model.node("Shape", {"x"}, {"shape"});
  model.node("Slice", {"shape", "from", "to"}, {"image"});
  model.node("Slice", {"shape", "zero", "from"}, {"rest"});
  model.node("Mul", {"image", "two"}, {"larger"});
  model.node("Concat", {"rest", "larger"}, {"sizes"}, {{"axis", 0}});
  model.node("Resize", {"x", "", "", "sizes"}, {"y"},
             {{"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}});
  EXPECT_EQ(output_of(model, {5, 1, 2, 3}).shape(), (Shape{5, 1, 4, 6}));
}

TEST(OnnxImport, AnErrorNamesItsNodeOnce) {
  OnnxModelForTest model(13);
  model.input("x", {2, 3});
  model.constant("c", {3, 3}, Floats(9));
  model.node("Concat", {"x", "c"}, {"y"}, {{"axis", 1}});
  model.output("y");
  const std::string message = import_error(model);
  EXPECT_THAT(message, HasSubstr("model.onnx: node \"y_node\" (Concat): "));
  EXPECT_EQ(message.find("node \""), message.rfind("node \"")) << message;
}

/// Files of results and options of the command line hold text.
TEST(OnnxImport, NamesThatAreNoTextAreEscaped) {
  OnnxModelForTest model(13);
  const std::string x("x\xff\0", 3);
  model.input(x, {2, 3});
  model.node("Relu", {x}, {"a\x1b"});
  model.node("Neg", {"a\x1b"}, {"y\xc3"});
  model.output("y\xc3");
  const Graph graph = import_onnx(model.write());
  EXPECT_THAT(graph.nodes().front().source_names, ElementsAre("x\\xff\\u0000"));
  EXPECT_THAT(graph.nodes().back().source_names, ElementsAre("y\\xc3"));
  const TemporaryPath file("escaped_names.mz");
  write_graph(file.get(), graph);
  EXPECT_THAT(read_graph(file.get()).nodes().back().source_names, ElementsAre("y\\xc3"));
  const OnnxImportOptions options{.shapes = {{"x\\xff\\u0000", {2, 3}}}};
  EXPECT_NO_THROW(import_onnx(model.write(), options));
  EXPECT_THAT(import_error(model, {.shapes = {{"z", {2, 3}}}}), HasSubstr("(known: x\\xff\\u0000)"));
}

TEST(OnnxImport, ArithmeticWithOpenSizesIsKnownForEachBatch) {
  OnnxModelForTest model(17);
  model.input("x", {-1, 2});
  model.output("y");
  model.constant<int64_t>("two", {}, {2});
  model.node("Shape", {"x"}, {"shape"});
  model.node("Mul", {"shape", "two"}, {"larger"});
  model.node("Sub", {"two", "larger"}, {"smaller"});
  model.node("Sub", {"two", "smaller"}, {"again"});
  model.node("ConstantOfShape", {"again"}, {"y"});
  const Graph graph = import_onnx(model.write());
  const NodeInput& output = graph.node("output").inputs.at(0);
  EXPECT_EQ(infer_shapes(graph, 3).at(value_name(output)).shape, (Shape{6, 4}));
  EXPECT_EQ(output_of(model, {3, 2}).shape(), (Shape{6, 4}));
}

TEST(OnnxImport, HugeDimensionsAreErrors) {
  OnnxModelForTest input(17);
  input.input("x", {int64_t{1} << 40, int64_t{1} << 40});
  input.output("y");
  input.node("Neg", {"x"}, {"y"});
  EXPECT_NE(import_error(input), "");

  OnnxModelForTest constant(17);
  constant.input("x", {2});
  constant.output("y");
  constant.constant<float>("weights", {int64_t{1} << 36}, {1});
  constant.node("Mul", {"x", "weights"}, {"y"});
  EXPECT_THAT(import_error(constant), HasSubstr("\"weights\""));

  OnnxModelForTest filled(17);
  filled.input("x", {1});
  filled.output("y");
  filled.constant<int64_t>("shape", {3}, {int64_t{1} << 30, int64_t{1} << 30, int64_t{1} << 30});
  filled.node("ConstantOfShape", {"shape"}, {"zeros"});
  filled.node("Add", {"x", "zeros"}, {"y"});
  EXPECT_NE(import_error(filled), "");
}

TEST(OnnxImport, NoBeginningOfAModelIsOne) {
  OnnxModelForTest model(17);
  model.input("x", {1, 2, 4, 4});
  model.output("y");
  model.constant<float>("weights", {1, 2, 1, 1}, {1, 2});
  model.constant<int64_t>("sizes", {4}, {1, 1, 8, 8});
  model.node("Conv", {"x", "weights"}, {"z"}, {{"kernel_shape", Ints{1, 1}}});
  model.node("Resize", {"z", "", "", "sizes"}, {"y"}, {{"mode", "linear"}});
  const std::string bytes = model.proto.SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(import_onnx(model.write(bytes.substr(0, size))), Error) << size;
  EXPECT_EQ(output_of(model, {1, 2, 4, 4}).shape(), (Shape{1, 1, 8, 8}));
}

TEST(OnnxImport, ChangedBytesAreReadOrRefused) {
  OnnxModelForTest model(17);
  model.input("x", {1, 2, 4, 4});
  model.output("y");
  model.constant<float>("weights", {1, 2, 1, 1}, {1, 2});
  model.node("Conv", {"x", "weights"}, {"z"}, {{"strides", Ints{1, 1}}});
  model.node("MaxPool", {"z"}, {"y"}, {{"kernel_shape", Ints{2, 2}}});
  const std::string bytes = model.proto.SerializeAsString();
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int change : {1, 0x40, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ change);
      try {
        import_onnx(model.write(changed));
      } catch (const Error&) {
      }
    }
  }
}

TEST(OnnxTensorFile, IsReadAsPublishedWithModels) {
  const TemporaryPath file("input_0.pb");
  onnx::TensorProto proto;
  proto.set_data_type(onnx::TensorProto::FLOAT);
  proto.add_dims(2);
  for (const float value : {1.5F, -2.0F}) proto.add_float_data(value);
  write_file(file.get(), proto.SerializeAsString());
  EXPECT_THAT(read_onnx_tensor(file.get()).values<float>(), testing::ElementsAre(1.5F, -2));
  write_file(file.get(), proto.SerializeAsString().substr(0, 5));
  EXPECT_THAT(detent::error_of([&] { read_onnx_tensor(file.get()); }),
              HasSubstr("input_0.pb: no tensor in ONNX"));
  proto.set_data_location(onnx::TensorProto::EXTERNAL);
  write_file(file.get(), proto.SerializeAsString());
  EXPECT_THAT(detent::error_of([&] { read_onnx_tensor(file.get()); }), HasSubstr("in another file"));
}

}  // namespace
}  // namespace detent
