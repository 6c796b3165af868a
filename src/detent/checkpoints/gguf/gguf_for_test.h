#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "detent/checkpoints/gguf/gguf_metadata.h"
#include "detent/core/tensor.h"

namespace detent {

/// Composes the bytes of a GGUF file of version 3, right or, where a test asks for it, wrong.
class GgufBytes {
 public:
  template <class T>
  static std::string number_bytes(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof(value)};
  }
  static std::string text_bytes(std::string_view text) {
    return number_bytes(uint64_t{text.size()}) + std::string(text);
  }
  /// Bytes after the key of an array.
  static std::string array_bytes(GgufType type, uint64_t count, const std::string& elements) {
    return number_bytes(static_cast<uint32_t>(type)) + number_bytes(count) + elements;
  }
  static std::string texts_bytes(const std::vector<std::string>& texts) {
    std::string elements;
    for (const std::string& text : texts) elements += text_bytes(text);
    return array_bytes(GgufType::kString, texts.size(), elements);
  }

  GgufBytes& entry(std::string_view key, GgufType type, const std::string& value) {
    entries_ += text_bytes(key) + number_bytes(static_cast<uint32_t>(type)) + value;
    ++entry_count_;
    return *this;
  }
  GgufBytes& text(std::string_view key, std::string_view value) {
    return entry(key, GgufType::kString, text_bytes(value));
  }
  GgufBytes& integer(std::string_view key, uint32_t value) {
    return entry(key, GgufType::kUInt32, number_bytes(value));
  }
  GgufBytes& real(std::string_view key, float value) {
    return entry(key, GgufType::kFloat32, number_bytes(value));
  }

  /// Data after those of the tensors before. The shape has rows first.
  GgufBytes& tensor(std::string_view name, uint32_t format, const Shape& shape, const std::string& data) {
    return tensor_at(name, format, shape, data_.size(), data);
  }
  GgufBytes& tensor_at(std::string_view name, uint32_t format, const Shape& shape, uint64_t offset,
                       const std::string& data) {
    tensors_ += text_bytes(name) + number_bytes(static_cast<uint32_t>(shape.size()));
    for (size_t i = shape.size(); i > 0; --i) tensors_ += number_bytes(shape[i - 1]);
    tensors_ += number_bytes(format) + number_bytes(offset);
    data_ += data;
    data_.resize((data_.size() + kAlignment - 1) / kAlignment * kAlignment);
    ++tensor_count_;
    return *this;
  }
  GgufBytes& floats(std::string_view name, const Shape& shape, const std::vector<float>& values) {
    return tensor(name, 0, shape,
                  {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }

  std::string bytes(uint32_t version = 3) const { return bytes_with(version, tensor_count_, entry_count_); }
  /// With counts of one's own.
  std::string bytes_with(uint32_t version, uint64_t tensors, uint64_t entries) const {
    std::string header = "GGUF" + number_bytes(version) + number_bytes(tensors) + number_bytes(entries);
    header += entries_ + tensors_;
    header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment);
    return header + data_;
  }

 private:
  static constexpr size_t kAlignment = 32;
  std::string entries_;
  std::string tensors_;
  std::string data_;
  uint64_t entry_count_ = 0;
  uint64_t tensor_count_ = 0;
};

}  // namespace detent
