#include "detent/engine.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/core/process_resources.h"
#include "detent/engine/c_status.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/file.h"
#include "detent/files/unfinished_file.h"
#include "detent/graph/node_names.h"
#include "detent/graph/operators.h"
#include "detent/graph/value_sizes.h"
#include "detent/graph_files/graph_file.h"
#include "detent/inference/integer_executor.h"

namespace {

using detent::DType;

/// In the order of detent_type.
constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                            DType::kInt64,   DType::kInt32,   DType::kInt16,   DType::kInt8,
                            DType::kUInt8,   DType::kBool};

std::optional<DType> dtype_of(detent_type type) {
  const auto index = static_cast<size_t>(type);
  return index < std::size(kTypes) ? std::optional(kTypes[index]) : std::nullopt;
}

detent_type type_of(DType dtype) {
  const auto* const found = std::ranges::find(kTypes, dtype);
  DETENT_CHECK(found != std::end(kTypes), "dtype {}", detent::dtype_name(dtype));
  return static_cast<detent_type>(found - std::begin(kTypes));
}

/// An input or output of a network; -1 stands for sizes that a run decides.
struct Described {
  std::string name;
  DType dtype;
  detent::Shape shape;
};

std::vector<Described> described_inputs(const detent::Graph& graph) {
  std::vector<Described> inputs;
  for (const std::string& name : graph.input_names()) {
    const detent::TensorType& type = graph.input_types().find(name)->second;
    Described input{detent::source_name(graph, detent::NodeInput::of(name)), type.dtype, {}};
    for (const detent::Dimension& size : type.shape)
      input.shape.push_back(size.is_named() ? detent::kOpenSize : size.size);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

/// Sizes that differ between two choices of the open ones follow from the inputs.
std::vector<Described> described_outputs(const detent::Graph& graph) {
  const detent::NamedSizes two = detent::with_batch(graph, detent::other_sizes(graph), 2);
  const detent::ValueTypes of_one = detent::infer_shapes(graph, detent::NamedSizes());
  std::optional<detent::ValueTypes> of_two;
  try {
    of_two = detent::infer_shapes(graph, two);
  } catch (const detent::Error&) {  // a network that only takes one
  }
  std::vector<Described> outputs;
  const detent::Node& last = graph.nodes().back();
  for (const detent::NodeInput& input : last.inputs) {
    const std::string name = detent::value_name(input);
    const detent::Operand& one = of_one.at(name);
    Described output{detent::source_name_or(last, outputs.size(), detent::source_name(graph, input)),
                     one.dtype, one.shape};
    for (size_t d = 0; d < output.shape.size(); ++d) {
      const bool is_fixed = of_two ? of_two->at(name).shape.at(d) == one.shape[d] : two.empty();
      if (!is_fixed) output.shape[d] = detent::kOpenSize;
    }
    outputs.push_back(std::move(output));
  }
  return outputs;
}

struct Loaded {
  explicit Loaded(detent::Graph graph)
      : inputs(described_inputs(graph)), outputs(described_outputs(graph)), program(std::move(graph)) {}

  std::vector<Described> inputs;
  std::vector<Described> outputs;
  detent::FastProgram program;
};

thread_local std::string error_text;

using detent::failed;
using detent::guarded;

/// It begins with the version of its format, a small number; a graph with the length of its header, after
/// which that begins.
bool is_onnx(const std::filesystem::path& path) {
  constexpr size_t kHeader = 8;
  const auto file = detent::map_file(path);
  const std::span<const std::byte> bytes = file->bytes();
  const bool has_version =
      bytes.size() > kHeader && bytes[0] == std::byte{0x08} && bytes[1] < std::byte{0x20};
  return has_version && bytes[kHeader] != std::byte{'{'};
}

/// Programs that somebody still has, by file as it was when read.
std::shared_ptr<const Loaded> loaded(const std::filesystem::path& path) {
  using Key = std::tuple<std::string, off_t, time_t, long>;
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<const Loaded>> known;
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::canonical(path, error);
  struct stat status {};
  if (error) detent::fail("{}: {}", path.string(), error.message());
  if (stat(whole.c_str(), &status) != 0) detent::fail("{}: {}", path.string(), std::strerror(errno));
  if (!S_ISREG(status.st_mode)) {
    detent::fail("{}: it is {}, expected a graph (.mz), a regular file", path.string(),
                 detent::file_type_text(status.st_mode));
  }
  const Key key{whole.string(), status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  const std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  const auto found = known.find(key);
  if (found != known.end()) {
    if (auto shared = found->second.lock()) return shared;
  }
  if (is_onnx(whole)) {
    detent::fail("{}: it is an ONNX model, expected a graph (.mz): `detent quantize MODEL.onnx` writes one",
                 path.string());
  }
  detent::Graph graph = detent::read_graph(whole);
  detent::check_finished_quantizers(graph);
  auto made = std::make_shared<const Loaded>(std::move(graph));
  known[key] = made;
  return made;
}

detent::Tensor tensor_of(const detent_value& input, size_t index) {
  const std::optional<DType> dtype = dtype_of(input.type);
  if (!dtype)
    detent::fail("input {}: got the type {}, expected one of detent_type", index,
                 static_cast<int>(input.type));
  if (input.data == nullptr || input.rank > DETENT_MOST_DIMENSIONS)
    detent::fail("input {}: got no data or more than {} dimensions", index, DETENT_MOST_DIMENSIONS);
  const detent::Shape shape(input.shape, input.shape + input.rank);
  const auto bytes = static_cast<uint64_t>(detent::element_count(shape)) * detent::dtype_size(*dtype);
  if (bytes != input.bytes) {
    detent::fail("input {}: got {} elements for the shape {}", index,
                 input.bytes / detent::dtype_size(*dtype), detent::shape_text(shape));
  }
  return detent::Tensor::borrow(*dtype, shape, static_cast<std::byte*>(input.data), nullptr);
}

detent_status give(const detent::Tensor& result, size_t index, detent_value& output) {
  const detent::Shape& shape = result.shape();
  if (shape.size() > DETENT_MOST_DIMENSIONS)
    return failed(DETENT_INTERNAL, fmt::format("output {} has {} dimensions", index, shape.size()));
  std::ranges::copy(shape, output.shape);
  output.rank = shape.size();
  output.type = type_of(result.dtype());
  if (output.data == nullptr || output.bytes < result.byte_size()) {
    const size_t size = detent::dtype_size(result.dtype());
    return failed(DETENT_BAD_ARGUMENT,
                  fmt::format("output {}: got room for {} elements, expected {}", index,
                              output.data == nullptr ? 0 : output.bytes / size, result.numel()));
  }
  std::ranges::copy(result.bytes(), static_cast<std::byte*>(output.data));
  return DETENT_OK;
}

/// Comes before anything that reads the caller's arrays: their lengths are what a wrong count gets wrong.
detent_status check_counts(const Loaded& loaded, size_t inputs, size_t outputs) {
  if (inputs != loaded.inputs.size()) {
    return failed(DETENT_BAD_INPUT, fmt::format("got {} inputs, expected {}", inputs, loaded.inputs.size()));
  }
  if (outputs != loaded.outputs.size()) {
    return failed(DETENT_BAD_ARGUMENT,
                  fmt::format("got {} outputs, expected {}", outputs, loaded.outputs.size()));
  }
  return DETENT_OK;
}

detent_status run(const Loaded& loaded, std::span<const detent_value> inputs,
                  std::span<detent_value> outputs) {
  std::vector<detent::Tensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) tensors.push_back(tensor_of(inputs[i], i));
  const std::vector<detent::Tensor> results = loaded.program.run(tensors);
  detent_status status = DETENT_OK;
  for (size_t i = 0; i < results.size(); ++i) {
    const detent_status given = give(results[i], i, outputs[i]);
    if (status == DETENT_OK) status = given;
  }
  return status;
}

detent_status describe(const std::vector<Described>& all, size_t index, detent_description* description) {
  if (description == nullptr) return failed(DETENT_BAD_ARGUMENT, "got a null pointer");
  if (index >= all.size())
    return failed(DETENT_BAD_ARGUMENT, fmt::format("got the index {} of {}", index, all.size()));
  const Described& one = all[index];
  if (one.shape.size() > DETENT_MOST_DIMENSIONS)
    return failed(DETENT_INTERNAL, fmt::format("{} has {} dimensions", one.name, one.shape.size()));
  *description = {one.name.c_str(), type_of(one.dtype), one.shape.size(), {}};
  std::ranges::copy(one.shape, description->shape);
  return DETENT_OK;
}

/// An output that is no float32 has no place in a detent_tensor.
detent_status check_floats(const Loaded& loaded) {
  for (const Described& output : loaded.outputs) {
    if (output.dtype == DType::kFloat32) continue;
    return failed(DETENT_BAD_ARGUMENT, fmt::format("output \"{}\" is {}: detent_program_run_values gives it",
                                                   output.name, detent::dtype_name(output.dtype)));
  }
  return DETENT_OK;
}

detent_value value_of(const detent_tensor& tensor) {
  detent_value value = {DETENT_FLOAT32, tensor.data, tensor.size * sizeof(float), {}, tensor.rank};
  std::ranges::copy(tensor.shape, value.shape);
  return value;
}

}  // namespace

struct detent_program {
  std::shared_ptr<const Loaded> loaded;
};

detent_status detent::failed(detent_status status, const std::string& text) noexcept {
  try {
    error_text = text;
  } catch (...) {
    error_text.clear();
  }
  return status;
}

extern "C" {

int32_t detent_engine_version(void) { return DETENT_ENGINE_VERSION; }

const char* detent_error_text(void) { return error_text.c_str(); }

detent_status detent_program_load(const char* path, detent_program** program) {
  if (path == nullptr || program == nullptr) return failed(DETENT_BAD_ARGUMENT, "got a null pointer");
  *program = nullptr;
  return guarded(DETENT_BAD_FILE, [&] {
    detent::check_processor();
    *program = new detent_program{loaded(path)};
    return DETENT_OK;
  });
}

void detent_program_free(detent_program* program) { delete program; }

size_t detent_program_input_count(const detent_program* program) {
  return program == nullptr ? 0 : program->loaded->inputs.size();
}

const char* detent_program_input_name(const detent_program* program, size_t input) {
  if (program == nullptr || input >= program->loaded->inputs.size()) return nullptr;
  return program->loaded->inputs[input].name.c_str();
}

size_t detent_program_output_count(const detent_program* program) {
  return program == nullptr ? 0 : program->loaded->outputs.size();
}

size_t detent_type_size(detent_type type) {
  const std::optional<DType> dtype = dtype_of(type);
  return dtype ? detent::dtype_size(*dtype) : 0;
}

detent_status detent_program_input(const detent_program* program, size_t input,
                                   detent_description* description) {
  if (program == nullptr) return failed(DETENT_BAD_ARGUMENT, "got a null pointer");
  return guarded(DETENT_INTERNAL, [&] { return describe(program->loaded->inputs, input, description); });
}

detent_status detent_program_output(const detent_program* program, size_t output,
                                    detent_description* description) {
  if (program == nullptr) return failed(DETENT_BAD_ARGUMENT, "got a null pointer");
  return guarded(DETENT_INTERNAL, [&] { return describe(program->loaded->outputs, output, description); });
}

detent_status detent_program_run_values(const detent_program* program, const detent_value* inputs,
                                        size_t input_count, detent_value* outputs, size_t output_count) {
  if (program == nullptr || (inputs == nullptr && input_count > 0) || outputs == nullptr)
    return failed(DETENT_BAD_ARGUMENT, "got a null pointer");
  return guarded(DETENT_BAD_INPUT, [&] {
    const detent_status status = check_counts(*program->loaded, input_count, output_count);
    if (status != DETENT_OK) return status;
    return run(*program->loaded, {inputs, input_count}, {outputs, output_count});
  });
}

detent_status detent_program_run(const detent_program* program, const detent_tensor* inputs,
                                 size_t input_count, detent_tensor* outputs, size_t output_count) {
  if (program == nullptr || (inputs == nullptr && input_count > 0) || outputs == nullptr)
    return failed(DETENT_BAD_ARGUMENT, "got a null pointer");
  return guarded(DETENT_BAD_INPUT, [&] {
    if (const detent_status status = check_floats(*program->loaded); status != DETENT_OK) return status;
    if (const detent_status status = check_counts(*program->loaded, input_count, output_count);
        status != DETENT_OK)
      return status;
    std::vector<detent_value> given;
    for (size_t i = 0; i < input_count; ++i) given.push_back(value_of(inputs[i]));
    std::vector<detent_value> results;
    for (size_t i = 0; i < output_count; ++i) results.push_back(value_of(outputs[i]));
    const detent_status status = run(*program->loaded, given, results);
    for (size_t i = 0; i < output_count; ++i) {
      std::ranges::copy(results[i].shape, outputs[i].shape);
      outputs[i].rank = results[i].rank;
    }
    return status;
  });
}

detent_status detent_set_threads(int32_t count) {
  if (count < 1 || count > DETENT_MOST_THREADS) {
    return failed(DETENT_BAD_ARGUMENT,
                  fmt::format("got {} threads, expected 1 to {}", count, DETENT_MOST_THREADS));
  }
  detent::set_thread_count(count);
  return DETENT_OK;
}

}  // extern "C"
