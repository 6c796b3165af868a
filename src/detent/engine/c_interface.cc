#include "detent/engine.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/engine/fast_executor.h"
#include "detent/io/graph_file.h"

namespace {

struct Loaded {
  explicit Loaded(detent::Graph graph)
      : input_names(graph.input_names()),
        output_count(graph.nodes().back().inputs.size()),
        program(std::move(graph)) {}

  std::vector<std::string> input_names;
  size_t output_count;
  detent::FastProgram program;
};

thread_local std::string error_text;

detent_status failed(detent_status status, const std::string& text) noexcept {
  try {
    error_text = text;
  } catch (...) {
    error_text.clear();
  }
  return status;
}

/// `fault` is the status of errors that the caller's data is at fault for.
template <class Work>
detent_status guarded(detent_status fault, const Work& work) noexcept {
  try {
    return work();
  } catch (const detent::Error& error) {
    return failed(fault, error.what());
  } catch (const std::bad_alloc&) {
    return failed(DETENT_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return failed(DETENT_INTERNAL, error.what());
  } catch (...) {
    return failed(DETENT_INTERNAL, "unknown error");
  }
}

/// Programs that somebody still has, by file as it was when read.
std::shared_ptr<const Loaded> loaded(const std::filesystem::path& path) {
  using Key = std::tuple<std::string, uintmax_t, std::filesystem::file_time_type>;
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<const Loaded>> known;
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::canonical(path, error);
  if (error) detent::fail("{}: {}", path.string(), error.message());
  const Key key{whole.string(), std::filesystem::file_size(whole), std::filesystem::last_write_time(whole)};
  const std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  const auto found = known.find(key);
  if (found != known.end()) {
    if (auto shared = found->second.lock()) return shared;
  }
  auto made = std::make_shared<const Loaded>(detent::read_graph(whole));
  known[key] = made;
  return made;
}

detent::Tensor tensor_of(const detent_tensor& input, size_t index) {
  if (input.data == nullptr || input.rank > DETENT_MOST_DIMENSIONS)
    detent::fail("input {}: got no data or more than {} dimensions", index, DETENT_MOST_DIMENSIONS);
  const detent::Shape shape(input.shape, input.shape + input.rank);
  const int64_t count = detent::element_count(shape);
  if (static_cast<uint64_t>(count) != input.size)
    detent::fail("input {}: got {} elements for the shape {}", index, input.size, detent::shape_text(shape));
  return detent::Tensor::borrow(detent::DType::kFloat32, shape, reinterpret_cast<std::byte*>(input.data),
                                nullptr);
}

detent_status give(const detent::Tensor& result, size_t index, detent_tensor& output) {
  const detent::Shape& shape = result.shape();
  if (shape.size() > DETENT_MOST_DIMENSIONS)
    return failed(DETENT_INTERNAL, fmt::format("output {} has {} dimensions", index, shape.size()));
  std::ranges::copy(shape, output.shape);
  output.rank = shape.size();
  const auto count = static_cast<size_t>(result.numel());
  if (output.data == nullptr || output.size < count) {
    return failed(DETENT_BAD_ARGUMENT, fmt::format("output {}: got room for {} elements, expected {}", index,
                                                   output.data == nullptr ? 0 : output.size, count));
  }
  const auto values = result.values<float>();
  std::ranges::copy(values, output.data);
  return DETENT_OK;
}

}  // namespace

struct detent_program {
  std::shared_ptr<const Loaded> loaded;
};

extern "C" {

int32_t detent_engine_version(void) { return DETENT_ENGINE_VERSION; }

const char* detent_error_text(void) { return error_text.c_str(); }

detent_status detent_program_load(const char* path, detent_program** program) {
  if (path == nullptr || program == nullptr) return failed(DETENT_BAD_ARGUMENT, "got a null pointer");
  *program = nullptr;
  return guarded(DETENT_BAD_FILE, [&] {
    *program = new detent_program{loaded(path)};
    return DETENT_OK;
  });
}

void detent_program_free(detent_program* program) { delete program; }

size_t detent_program_input_count(const detent_program* program) {
  return program == nullptr ? 0 : program->loaded->input_names.size();
}

const char* detent_program_input_name(const detent_program* program, size_t input) {
  if (program == nullptr || input >= program->loaded->input_names.size()) return nullptr;
  return program->loaded->input_names[input].c_str();
}

size_t detent_program_output_count(const detent_program* program) {
  return program == nullptr ? 0 : program->loaded->output_count;
}

detent_status detent_program_run(const detent_program* program, const detent_tensor* inputs,
                                 size_t input_count, detent_tensor* outputs, size_t output_count) {
  if (program == nullptr || (inputs == nullptr && input_count > 0) || outputs == nullptr)
    return failed(DETENT_BAD_ARGUMENT, "got a null pointer");
  if (output_count != program->loaded->output_count) {
    return failed(DETENT_BAD_ARGUMENT,
                  fmt::format("got {} outputs, expected {}", output_count, program->loaded->output_count));
  }
  return guarded(DETENT_BAD_INPUT, [&] {
    std::vector<detent::Tensor> tensors;
    for (size_t i = 0; i < input_count; ++i) tensors.push_back(tensor_of(inputs[i], i));
    const std::vector<detent::Tensor> results = program->loaded->program.run(tensors);
    detent_status status = DETENT_OK;
    for (size_t i = 0; i < results.size(); ++i) {
      const detent_status given = give(results[i], i, outputs[i]);
      if (status == DETENT_OK) status = given;
    }
    return status;
  });
}

detent_status detent_set_threads(int32_t count) {
  if (count < 1)
    return failed(DETENT_BAD_ARGUMENT, fmt::format("got {} threads, expected at least 1", count));
  detent::set_thread_count(count);
  return DETENT_OK;
}

}  // extern "C"
