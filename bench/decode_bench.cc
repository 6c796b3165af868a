// Tokens decoded one by one by a random network of SmolLM2-135M's shape, one thread, in turns with reading
// memory: `of_bandwidth` is the share of the bytes a second that reading alone reaches in the same run, `ms`
// the CPU time of a token, both of the median turn. The argument is the row of kFormats.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <random>

#include "detent/core/parallel.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/toml.h"
#include "detent/language/decoder.h"
#include "detent/language/language_graph.h"
#include "detent/language/language_weights.h"
#include "detent/passes/pass.h"

namespace detent {
namespace {

struct Formats {
  const char* name;
  const char* options;  // of static_quantize; "": the float network
};
constexpr Formats kFormats[] = {
    {"bfloat16", ""},
    {"int8", "activations = \"int8\"\nelementwise = \"int8\"\n"},
    {"int8 weights, fp8 activations", "activations = \"fp8_e4m3fn\"\n"},
    {"int4_g32 weights, fp8 activations", "weights = \"int4_g32\"\nactivations = \"fp8_e4m3fn\"\n"},
    {"nvfp4 weights, int8 activations", "weights = \"nvfp4\"\nactivations = \"int8\"\n"},
};

LanguageConfig shape_of_smollm2() {
  LanguageConfig config;
  config.family = "llama";
  config.layers = 30;
  config.hidden = 576;
  config.heads = 9;
  config.kv_heads = 3;
  config.head_size = 64;
  config.intermediate = 1536;
  config.vocabulary = 49152;
  config.context = 2048;
  config.tied_head = true;
  config.rotary = config.window_rotary = rotary_of({}, config.head_size, config.context);
  return config;
}

/// Normal, of the variance 1 / inputs, in bfloat16.
class RandomWeights final : public WeightSource {
 public:
  Tensor tensor(const std::string& name, const Shape& shape) override {
    Tensor& tensor = tensors_[name];
    if (tensor.numel() > 0) return tensor;
    tensor = Tensor(DType::kFloat32, shape);
    std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(shape.back())));
    for (float& value : tensor.values<float>()) {
      const float drawn = shape.size() == 1 ? 1.0F : normal(generator_);
      value = std::bit_cast<float>(std::bit_cast<uint32_t>(drawn) & 0xFFFF0000U);
    }
    return tensor;
  }

 private:
  std::mt19937 generator_{1};
  std::map<std::string, Tensor> tensors_;
};

class RandomTexts final : public CalibrationSet {
 public:
  int64_t size() const override { return 2; }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    constexpr int64_t kTokens = 32;
    Tensor tokens(DType::kInt64, {end - begin, kTokens});
    for (int64_t i = 0; i < tokens.numel(); ++i)
      tokens.values<int64_t>()[static_cast<size_t>(i)] = (begin * kTokens + i) * 7919 % 49152;
    Tensor mask(DType::kInt64, tokens.shape());
    std::ranges::fill(mask.values<int64_t>(), 1);
    return {tokens, mask};
  }
  uint64_t fingerprint() const override { return 1; }
};

Graph network(const Formats& formats) {
  RandomWeights weights;
  Graph graph = build_language_graph(shape_of_smollm2(), weights);
  if (*formats.options == '\0') return graph;
  FastExecutor executor;
  PassContext context;
  context.open_calibration = [] { return std::make_unique<RandomTexts>(); };
  context.executor = [&]() -> Executor& { return executor; };
  context.report = [](const std::string&) {};
  context.warn = [](const std::string&) {};
  context.output_dir = std::filesystem::temp_directory_path() / "detent_decode_bench";
  const std::string passes = "[passes.static_quantize]\nnum_samples = 2\nreport = false\n";
  run_pipeline(graph, *parse_toml(passes + formats.options, "passes").find("passes")->get_if<Table>(),
               "passes", context);
  return graph;
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void decode(benchmark::State& state) {
  const Formats& formats = kFormats[state.range(0)];
  set_thread_count(1);
  const Decoder decoder(network(formats));
  SequenceCache cache = decoder.start();
  std::vector<int64_t> tokens(64);
  std::iota(tokens.begin(), tokens.end(), 100);
  decoder.run(cache, tokens);
  const std::vector<uint64_t> memory(size_t{32} << 20, 1);
  std::vector<double> seconds;
  std::vector<double> bandwidths;
  constexpr int kTokens = 8;
  for (auto _ : state) {
    const double begin = cpu_seconds();
    for (int64_t i = 0; i < kTokens; ++i) decoder.run(cache, std::vector<int64_t>{i});
    const double decoded = cpu_seconds();
    benchmark::DoNotOptimize(std::accumulate(memory.begin(), memory.end(), uint64_t{0}));
    const double read = cpu_seconds();
    cache.truncate(64);
    seconds.push_back((decoded - begin) / kTokens);
    bandwidths.push_back(static_cast<double>(memory.size() * sizeof(uint64_t)) / (read - decoded));
    state.SetIterationTime(seconds.back());
  }
  const double bytes_per_second = static_cast<double>(decoder.weight_bytes()) / median(seconds);
  state.SetLabel(formats.name);
  state.counters["ms"] = 1000 * median(seconds);
  state.counters["MB"] = static_cast<double>(decoder.weight_bytes()) / 1e6;
  state.counters["memory_GB/s"] = median(bandwidths) / 1e9;
  state.counters["of_bandwidth"] = bytes_per_second / median(bandwidths);
}
BENCHMARK(decode)->DenseRange(0, 4)->UseManualTime()->Iterations(15)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace detent
