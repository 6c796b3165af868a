#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/language/language_config.h"
#include "detent/language/language_graph.h"
#include "detent/language/language_weights.h"

namespace detent {

/// Weights that follow from their names: about 0.2 in size, norms around 1.
class WeightsForTest final : public WeightSource {
 public:
  Tensor tensor(const std::string& name, const Shape& shape) override {
    return filled(name, shape, name.ends_with("norm.weight"));
  }
  /// By a name of a file.
  Tensor of_stored(const std::string& name, const Shape& shape) {
    const bool is_norm = name.find("norm") != std::string::npos || name.find("Norm") != std::string::npos;
    return filled(name, shape, is_norm && name.ends_with("weight"));
  }
  const Tensor& at(const std::string& name) const { return tensors_.at(name); }
  bool has(const std::string& name) const { return tensors_.contains(name); }

 private:
  Tensor filled(const std::string& name, const Shape& shape, bool is_scale) {
    auto [entry, is_new] = tensors_.try_emplace(name);
    if (is_new) {
      entry->second = Tensor(DType::kFloat32, shape);
      uint64_t state = 1469598103934665603U;
      for (const char c : name) state = (state ^ static_cast<uint8_t>(c)) * 1099511628211U;
      for (float& x : entry->second.values<float>()) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        x = static_cast<float>(static_cast<double>(state >> 40U) / double(1 << 24) - 0.5) * 0.8F;
        if (is_scale) x += 1;
      }
    }
    return entry->second;
  }

  std::map<std::string, Tensor> tensors_;
};

/// A Llama of two layers with three heads for each of keys.
inline LanguageConfig small_config() {
  LanguageConfig config;
  config.family = "llama";
  config.layers = 2;
  config.hidden = 24;
  config.heads = 6;
  config.kv_heads = 2;
  config.head_size = 8;
  config.intermediate = 40;
  config.vocabulary = 61;
  config.context = 512;
  config.rotary = config.window_rotary = rotary_of({}, config.head_size, config.context);
  return config;
}

inline std::vector<int64_t> tokens_for_test(int64_t count, int64_t vocabulary) {
  std::vector<int64_t> tokens;
  uint64_t state = 88172645463325252U;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    tokens.push_back(static_cast<int64_t>((state >> 33U) % static_cast<uint64_t>(vocabulary)));
  }
  return tokens;
}

}  // namespace detent
