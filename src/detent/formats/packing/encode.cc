#include "detent/formats/packing/encode.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "detent/core/parallel.h"
#include "detent/formats/blocks/block_kernels.h"
#include "detent/formats/elements/element_kernels.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/kernel_environment.h"

namespace detent {
namespace {

/// Elements that are rounded, coded and packed while they are in the first-level cache.
constexpr int64_t kBlock = 32 * kPackingBlock;
/// Elements that one thread takes at a time.
constexpr int64_t kEncodingGrain = 64 * kBlock;

/// Fetches the elements [begin, end) in so many steps, taken between those that code the block before: memory
/// would idle meanwhile, and the processor tracks only some tens of fetches at once.
class Prefetch {
 public:
  Prefetch(const float* values, int64_t begin, int64_t end) : values_(values), next_(begin), end_(end) {}

  void step() {
    const int64_t stop = std::min(end_, next_ + kBlock / kSteps);
    for (; next_ < stop; next_ += kLine) __builtin_prefetch(values_ + next_);
  }

 private:
  static constexpr int64_t kSteps = 4;
  static constexpr int64_t kLine = 16;  // elements

  const float* values_;
  int64_t next_;
  int64_t end_;
};

int code_width(const QuantSpec& spec) { return static_cast<int>(bits_per_value(spec.format)); }

/// Layout of the codes of all blocks' scales; nothing for other formats.
std::optional<StreamLayout> scale_stream(const QuantSpec& spec, const Shape& shape) {
  return std::visit(
      [&]<class F>(const F& format) -> std::optional<StreamLayout> {
        if constexpr (BlockFormat<F>) {
          const int64_t blocks = block_layout(spec, shape)->block_count();
          const int64_t size = packed_size(Packing::kBits, format.shared_bits(), blocks);
          return StreamLayout{F::kScaleStream, DType::kUInt8, {size}};
        } else {
          return std::nullopt;
        }
      },
      spec.format);
}

void set_number(Tensor& tensor, size_t index, double number) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      tensor.values<float>()[index] = static_cast<float>(number);
      break;
    case DType::kUInt8:
      tensor.values<uint8_t>()[index] = static_cast<uint8_t>(number);
      break;
    case DType::kInt32:
      tensor.values<int32_t>()[index] = static_cast<int32_t>(number);
      break;
    default:
      DETENT_CHECK(false, "parameters of {}", dtype_name(tensor.dtype()));
  }
}

double number_at(const Tensor& tensor, size_t index) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return static_cast<double>(tensor.values<float>()[index]);
    case DType::kUInt8:
      return tensor.values<uint8_t>()[index];
    case DType::kInt32:
      return tensor.values<int32_t>()[index];
    default:
      DETENT_CHECK(false, "parameters of {}", dtype_name(tensor.dtype()));
  }
}

/// Calls visit(tensor, index, number) for every number of `group`, which stands at `index` of the stream
/// `tensor`.
template <class Streams, class Visit>
void for_each_number(const std::vector<ParameterStream>& layout, Streams& streams, size_t group,
                     std::vector<double>& numbers, const Visit& visit) {
  size_t next = 0;
  for (size_t s = 0; s < layout.size(); ++s) {
    const auto count = static_cast<size_t>(layout[s].per_group);
    for (size_t i = 0; i < count; ++i) visit(streams[s + 1].data, group * count + i, numbers[next++]);
  }
}

/// Stores the parameters of all groups into the streams after the codes.
void store_parameters(const QuantSpec& spec, const GroupParameters& parameters, Encoded& encoded) {
  const std::vector<ParameterStream> layout = parameter_streams(spec.format);
  if (layout.empty()) return;
  std::vector<double> numbers(static_cast<size_t>(numbers_per_group(layout)));
  std::visit(
      [&]<class F>(const F& format) {
        if constexpr (!FormatWithoutData<F>) {
          const auto& groups = std::get<std::vector<typename F::Parameters>>(parameters);
          for (size_t group = 0; group < groups.size(); ++group) {
            format.store(groups[group], numbers.data());
            for_each_number(layout, encoded.streams, group, numbers, set_number);
          }
        }
      },
      spec.format);
}

/// Calls visit(numbers) for every group, with what store_parameters stored.
template <class Visit>
void for_each_group(const Encoded& encoded, const Grouping& grouping, const Visit& visit) {
  const std::vector<ParameterStream> layout = parameter_streams(encoded.spec.format);
  std::vector<double> numbers(static_cast<size_t>(numbers_per_group(layout)));
  const auto load = [](const Tensor& tensor, size_t index, double& number) {
    number = number_at(tensor, index);
  };
  for (size_t group = 0; group < static_cast<size_t>(grouping.groups()); ++group) {
    for_each_number(layout, encoded.streams, group, numbers, load);
    visit(numbers.data());
  }
}

/// Parameters of an element format, as far as decoding needs them.
GroupParameters stored_parameters(const Encoded& encoded, const Grouping& grouping) {
  return std::visit(
      [&]<class F>(const F& format) -> GroupParameters {
        std::vector<typename F::Parameters> groups;
        if constexpr (FormatWithoutData<F>) {
          groups.push_back(format.parameters());
        } else if constexpr (ElementFormat<F>) {
          groups.reserve(static_cast<size_t>(grouping.groups()));
          for_each_group(encoded, grouping,
                         [&](const double* numbers) { groups.push_back(format.stored_parameters(numbers)); });
        }
        return groups;
      },
      encoded.spec.format);
}

/// Codec of a block format.
BlockCodec block_codec(const Encoded& encoded, const Grouping& grouping, const BlockLayout& layout) {
  std::optional<BlockCodec> codec;
  for_each_group(encoded, grouping,
                 [&](const double* numbers) { codec = block_codec(encoded.spec.format, layout, numbers); });
  return *codec;
}

bool has_nan_code(const Format& format) {
  return std::visit(
      []<class F>(const F& f) {
        if constexpr (requires { f.has_nan(); }) {
          return f.has_nan();
        } else if constexpr (ElementFormat<F>) {
          return bool{F::kHasNan};
        } else {
          return false;
        }
      },
      format);
}

uint8_t* bytes_of(EncodedStream& stream) { return stream.data.values<uint8_t>().data(); }
const uint8_t* bytes_of(const EncodedStream& stream) { return stream.data.values<uint8_t>().data(); }

void encode_elements(const GroupParameters& parameters, const Grouping& grouping, const Tensor& input,
                     Encoded& encoded, FirstIndex& nan_index) {
  const Packing packing = encoded.packing;
  const bool nan_allowed = has_nan_code(encoded.spec.format);
  const int width = code_width(encoded.spec);
  const float* in = input.values<float>().data();
  uint8_t* bytes = bytes_of(encoded.streams.front());
  with_element_kernels(parameters, grouping, [&](const auto& groups, const auto& kernels) {
    parallel_for(input.numel(), kEncodingGrain, [&](int64_t begin, int64_t end) {
      const DefaultFloatEnvironment of_thread;
      alignas(64) uint32_t codes[kBlock];
      for (; begin < end; begin += kBlock) {
        const int64_t count = std::min(kBlock, end - begin);
        Prefetch ahead(in, begin + kBlock, std::min(begin + 2 * kBlock, input.numel()));
        ahead.step();
        const int64_t nan = nan_allowed ? count : first_nan(in + begin, count);
        if (nan < count) return nan_index.report(begin + nan);
        ahead.step();
        kernels.encode(groups, in + begin, codes, begin, begin + count);
        ahead.step();
        pack_codes(packing, width, codes, count, bytes + packed_size(packing, width, begin));
        ahead.step();
      }
    });
  });
}

void decode_elements(const Encoded& encoded, const Grouping& grouping, Tensor& output) {
  const int width = code_width(encoded.spec);
  const uint8_t* bytes = bytes_of(encoded.streams.front());
  float* out = output.values<float>().data();
  const bool stream = output.byte_size() >= kStreamBytes;
  FirstIndex bad;
  const GroupParameters parameters = stored_parameters(encoded, grouping);
  with_element_kernels(parameters, grouping, [&](const auto& groups, const auto& kernels) {
    parallel_for(output.numel(), kEncodingGrain, [&](int64_t begin, int64_t end) {
      const DefaultFloatEnvironment of_thread;
      alignas(64) uint32_t codes[kBlock];
      alignas(64) float values[kBlock];
      for (; begin < end; begin += kBlock) {
        const int64_t count = std::min(kBlock, end - begin);
        const uint8_t* first = bytes + packed_size(encoded.packing, width, begin);
        const int64_t held = unpack_codes(encoded.packing, width, first, count, codes);
        if (held < count) return bad.report(begin + held);
        kernels.decode(groups, codes, stream ? values : out + begin, begin, begin + count);
        if (stream) stream_range(values, out + begin, count);
      }
      if (stream) flush_stream();
    });
  });
  if (bad.found()) {
    fail("decode: the byte with element {} is not what packing = \"base3\" writes", bad.get());
  }
}

/// The streams are there. Throws Error on numbers that the format does not take.
void check_numbers(const Encoded& encoded) {
  const std::vector<ParameterStream> layout = parameter_streams(encoded.spec.format);
  for (size_t s = 0; s < layout.size(); ++s) {
    const Tensor& data = encoded.streams[s + 1].data;
    const Between& allowed = layout[s].allowed;
    const auto text = [&](double number) {
      return data.dtype() == DType::kFloat32 ? float_text(number) : fmt::format("{:.0f}", number);
    };
    for (size_t i = 0; i < static_cast<size_t>(data.numel()); ++i) {
      const double number = number_at(data, i);
      if (!std::isfinite(number)) {
        fail("decode: stream \"{}\" has {} at index {}, expected finite numbers", layout[s].name,
             float_text(number), i);
      }
      if (number < allowed.low || number > allowed.high) {
        fail("decode: stream \"{}\" has {} at index {}, expected at least {} and at most {}", layout[s].name,
             text(number), i, text(allowed.low), text(allowed.high));
      }
    }
  }
}

void check_streams(const Encoded& encoded) {
  validate(encoded.spec, "decode");
  const std::vector<StreamLayout> layout = encoded_layout(encoded.spec, encoded.shape, encoded.packing);
  if (layout.size() != encoded.streams.size()) {
    fail("decode: {} streams, {} needs {}", encoded.streams.size(), quant_spec_text(encoded.spec),
         layout.size());
  }
  for (size_t i = 0; i < layout.size(); ++i) {
    const auto& [name, data] = encoded.streams[i];
    if (name != layout[i].name || data.dtype() != layout[i].dtype || data.shape() != layout[i].shape) {
      fail("decode: stream \"{}\" is {} of shape {}, expected \"{}\", {} of shape {}", name,
           dtype_name(data.dtype()), shape_text(data.shape()), layout[i].name, dtype_name(layout[i].dtype),
           shape_text(layout[i].shape));
    }
  }
  check_numbers(encoded);
}

}  // namespace

std::vector<StreamLayout> encoded_layout(const QuantSpec& spec, const Shape& shape, Packing packing) {
  if (packing == Packing::kBase3 && !std::holds_alternative<Ternary>(spec.format)) {
    fail("packing = \"base3\": {} is not ternary, expected packing = \"bits\"", format_name(spec.format));
  }
  const int64_t count = element_count(shape);
  const int64_t groups = count == 0 ? 0 : make_grouping(spec, shape).groups();
  std::vector<StreamLayout> layout = {
      {"codes", DType::kUInt8, {packed_size(packing, code_width(spec), count)}}};
  for (const ParameterStream& stream : parameter_streams(spec.format)) {
    Shape stream_shape = {groups};
    if (stream.per_group != 1) stream_shape.push_back(stream.per_group);
    layout.push_back({stream.name, stream.dtype, std::move(stream_shape)});
  }
  if (std::optional<StreamLayout> scales = scale_stream(spec, shape)) layout.push_back(std::move(*scales));
  return layout;
}

double bits_per_value(const QuantSpec& spec, Packing packing) {
  return packing == Packing::kBase3 ? 8.0 / 5.0 : bits_per_value(spec.format);
}

Encoded encode(const QuantSpec& spec, const Tensor& input, Packing packing, uint64_t seed) {
  validate(spec, "encode");
  Encoded encoded{spec, input.shape(), packing, {}};
  for (StreamLayout& stream : encoded_layout(spec, input.shape(), packing)) {
    encoded.streams.push_back({std::move(stream.name), Tensor(stream.dtype, std::move(stream.shape))});
  }
  encode(spec, input, encoded, seed);
  return encoded;
}

void encode(const QuantSpec& spec, const Tensor& input, Encoded& encoded, uint64_t seed) {
  const DefaultFloatEnvironment environment;
  validate_with_scale(spec, "encode");
  if (input.dtype() != DType::kFloat32) {
    fail("encode: got a tensor of {}, expected float32", dtype_name(input.dtype()));
  }
  DETENT_CHECK(encoded.spec == spec && encoded.shape == input.shape(), "streams of {} of shape {}",
               quant_spec_text(encoded.spec), shape_text(encoded.shape));
  if (input.numel() == 0) return;
  const Grouping grouping = make_grouping(spec, input.shape());
  const GroupParameters parameters = derive_parameters(spec, input, grouping, seed);
  store_parameters(spec, parameters, encoded);
  FirstIndex nan;
  if (const auto layout = block_layout(spec, input.shape())) {
    encode_blocks(block_codec(encoded, grouping, *layout), parameters, input,
                  bytes_of(encoded.streams.front()), bytes_of(encoded.streams.back()), nan);
  } else {
    encode_elements(parameters, grouping, input, encoded, nan);
  }
  if (nan.found()) {
    fail("encode: element {} is NaN, for which {} has no code", nan.get(), quant_spec_text(spec));
  }
}

Tensor decode(const Encoded& encoded) {
  const DefaultFloatEnvironment environment;
  check_streams(encoded);
  Tensor output(DType::kFloat32, encoded.shape);
  decode(encoded, output);
  return output;
}

void decode(const Encoded& encoded, Tensor& output) {
  const DefaultFloatEnvironment environment;
  check_streams(encoded);
  DETENT_CHECK(output.dtype() == DType::kFloat32 && output.shape() == encoded.shape, "output of shape {}",
               shape_text(output.shape()));
  if (output.numel() == 0) return;
  const Grouping grouping = make_grouping(encoded.spec, encoded.shape);
  if (const auto layout = block_layout(encoded.spec, encoded.shape)) {
    decode_blocks(block_codec(encoded, grouping, *layout), bytes_of(encoded.streams.front()),
                  bytes_of(encoded.streams.back()), output);
  } else {
    decode_elements(encoded, grouping, output);
  }
}

}  // namespace detent
