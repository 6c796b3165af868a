#include "detent/files/array_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "detent/core/error.h"
#include "detent/files/byte_reader.h"
#include "detent/files/file.h"

namespace detent {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr size_t kMaxNpyHeader = size_t{1} << 20;
constexpr size_t kMaxNpyRank = 64;
constexpr size_t kAlignment = 64;

constexpr std::array<std::pair<std::string_view, DType>, 9> kDTypes = {{
    {"|b1", DType::kBool},
    {"|u1", DType::kUInt8},
    {"|i1", DType::kInt8},
    {"<i2", DType::kInt16},
    {"<i4", DType::kInt32},
    {"<i8", DType::kInt64},
    {"<f2", DType::kFloat16},
    {"<f4", DType::kFloat32},
    {"<f8", DType::kFloat64},
}};

/// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }: the subset of Python that NumPy writes.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::string name) : rest_(text), name_(std::move(name)) {}

  void parse() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      read_value(key);
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (!rest_.empty()) fail("{}: text after the header's dictionary", name_);
    if (!descr_ || !fortran_order_ || !shape_) {
      fail("{}: the header must have the keys descr, fortran_order and shape", name_);
    }
  }

  std::string_view descr() const { return *descr_; }
  bool fortran_order() const { return *fortran_order_; }
  const Shape& shape() const { return *shape_; }

 private:
  void read_value(std::string_view key) {
    if (key == "descr" && !descr_) {
      descr_ = quoted();
    } else if (key == "fortran_order" && !fortran_order_) {
      fortran_order_ = boolean();
    } else if (key == "shape" && !shape_) {
      shape_ = tuple();
    } else {
      fail("{}: the header's key \"{}\" is unknown or occurs twice", name_, key);
    }
  }

  void skip_spaces() {
    const size_t first = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(std::min(first, rest_.size()));
  }

  bool accept(char symbol) {
    skip_spaces();
    if (rest_.empty() || rest_.front() != symbol) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char symbol) {
    if (!accept(symbol)) fail("{}: the header is not what NumPy writes: \"{}\" expected", name_, symbol);
  }

  std::string_view quoted() {
    skip_spaces();
    const char quote = rest_.starts_with('"') ? '"' : '\'';
    expect(quote);
    const size_t end = rest_.find(quote);
    if (end == std::string_view::npos) fail("{}: the header has text without an end", name_);
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

  bool boolean() {
    skip_spaces();
    for (const auto& [word, value] : {std::pair("True", true), std::pair("False", false)}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(std::strlen(word));
      return value;
    }
    fail("{}: the header's fortran_order is neither True nor False", name_);
  }

  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      skip_spaces();
      int64_t size = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc() || size < 0 || shape.size() == kMaxNpyRank) {
        fail("{}: the header's shape is no tuple of at most {} sizes", name_, kMaxNpyRank);
      }
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      shape.push_back(size);
      if (accept(',')) continue;
      expect(')');
      break;
    }
    return shape;
  }

  std::string_view rest_;
  std::string name_;
  std::optional<std::string_view> descr_;
  std::optional<bool> fortran_order_;
  std::optional<Shape> shape_;
};

/// Unsigned integers, as the signed ones of the same size. Tensors have none of more than 8 bits.
constexpr std::array<std::pair<std::string_view, DType>, 3> kUnsigned = {{
    {"<u2", DType::kInt16},
    {"<u4", DType::kInt32},
    {"<u8", DType::kInt64},
}};

bool is_unsigned(std::string_view descr) {
  return std::ranges::find(kUnsigned, descr, &std::pair<std::string_view, DType>::first) != kUnsigned.end();
}

bool is_big_endian(std::string_view descr) { return descr.starts_with('>'); }

DType dtype_of(std::string_view descr, const std::string& name) {
  for (const auto& [text, dtype] : kUnsigned)
    if (descr == text) return dtype;
  for (const auto& [text, dtype] : kDTypes) {
    if (descr == text || (text[0] == '|' && descr.size() == 3 && descr.substr(1) == text.substr(1)))
      return dtype;
  }
  std::string known;
  for (const auto& [text, dtype] : kDTypes) known += fmt::format("{}{}", known.empty() ? "" : ", ", text);
  for (const auto& [text, dtype] : kUnsigned) known += fmt::format(", {}", text);
  fail("{}: dtype \"{}\", supported are {}", name, descr, known);
}

uint64_t checked_count(const Shape& shape, const std::string& name) {
  try {
    return static_cast<uint64_t>(element_count(shape));
  } catch (const Error& error) {
    fail("{}: {}", name, error.what());
  }
}

/// The elements of a Fortran-ordered array, the first dimension fastest, in C order.
template <class Element>
void copy_from_fortran_order(const std::byte* data, const Shape& shape, std::byte* target) {
  const size_t rank = shape.size();
  std::vector<int64_t> strides(rank, 1);
  for (size_t i = 1; i < rank; ++i) strides[i] = strides[i - 1] * shape[i - 1];
  std::vector<int64_t> index(rank);
  int64_t source = 0;
  const int64_t count = element_count(shape);
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(target + static_cast<size_t>(i) * sizeof(Element),
                data + static_cast<size_t>(source) * sizeof(Element), sizeof(Element));
    for (size_t dim = rank; dim-- > 0;) {
      source += strides[dim];
      if (++index[dim] < shape[dim]) break;
      source -= strides[dim] * shape[dim];
      index[dim] = 0;
    }
  }
}

Tensor from_fortran_order(const std::byte* data, DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  std::byte* target = tensor.bytes().data();
  switch (dtype_size(dtype)) {
    case 1:
      copy_from_fortran_order<uint8_t>(data, shape, target);
      break;
    case 2:
      copy_from_fortran_order<uint16_t>(data, shape, target);
      break;
    case 4:
      copy_from_fortran_order<uint32_t>(data, shape, target);
      break;
    default:
      copy_from_fortran_order<uint64_t>(data, shape, target);
  }
  return tensor;
}

/// Elements of `bits` without a sign, in the next larger type.
template <class Signed, class Larger>
Tensor unsigned_elements(const Tensor& bits) {
  Tensor result(DTypeOf<Larger>::value, bits.shape());
  std::ranges::transform(bits.values<Signed>(), result.values<Larger>().begin(), [](Signed x) {
    return static_cast<Larger>(static_cast<std::make_unsigned_t<Signed>>(x));
  });
  return result;
}

/// A copy with the bytes of each element in the other order.
Tensor in_other_order(const Tensor& elements) {
  Tensor result = elements.clone();
  const auto size = static_cast<std::ptrdiff_t>(dtype_size(elements.dtype()));
  const std::span<std::byte> bytes = result.bytes();
  for (auto first = bytes.begin(); first != bytes.end(); first += size) std::reverse(first, first + size);
  return result;
}

/// Header before the elements, checked against the size of the file.
struct NpyHeader {
  DType dtype;
  bool is_unsigned;
  bool is_big_endian;
  Shape shape;
  uint64_t count;      // of elements
  size_t data_offset;  // in the file
  bool fortran_order;  // the first dimension is the fastest
};

NpyHeader read_header(std::span<const std::byte> prefix, uint64_t file_size, const std::string& name) {
  ByteReader reader(prefix, name);
  if (prefix.size() < kNpyMagic.size() || reader.text(kNpyMagic.size()) != kNpyMagic) {
    fail("{}: not a .npy file", name);
  }
  const auto major = reader.number<uint8_t>();
  reader.number<uint8_t>();
  if (major < 1 || major > 3) fail("{}: .npy version {}, supported are 1, 2 and 3", name, major);
  const size_t header_bytes = major == 1 ? reader.number<uint16_t>() : reader.number<uint32_t>();
  if (header_bytes > kMaxNpyHeader) {
    fail("{}: a header of {} bytes, at most {} are possible", name, header_bytes, kMaxNpyHeader);
  }
  HeaderParser parser(reader.text(header_bytes), name);
  parser.parse();
  std::string descr(parser.descr());
  if (is_big_endian(descr)) descr[0] = '<';
  const NpyHeader header{.dtype = dtype_of(descr, name),
                         .is_unsigned = is_unsigned(descr),
                         .is_big_endian = is_big_endian(parser.descr()),
                         .shape = parser.shape(),
                         .count = checked_count(parser.shape(), name),
                         .data_offset = reader.position(),
                         .fortran_order = parser.fortran_order() && parser.shape().size() > 1};
  const uint64_t data_bytes = file_size - header.data_offset;
  if (data_bytes % dtype_size(header.dtype) != 0 || data_bytes / dtype_size(header.dtype) != header.count) {
    fail("{}: {} bytes of data, shape {} of {} needs {} elements", name, data_bytes, shape_text(header.shape),
         dtype_name(header.dtype), header.count);
  }
  return header;
}

std::string header_text(DType dtype, const Shape& shape) {
  const auto found = std::ranges::find(kDTypes, dtype, &std::pair<std::string_view, DType>::second);
  DETENT_CHECK(found != kDTypes.end(), "dtype {}", dtype_name(dtype));
  return fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", found->first,
                     fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

}  // namespace

Tensor unsigned_elements(const Tensor& bits, const std::string& name) {
  if (bits.dtype() == DType::kInt16) return unsigned_elements<int16_t, int32_t>(bits);
  if (bits.dtype() == DType::kInt32) return unsigned_elements<int32_t, int64_t>(bits);
  for (const int64_t x : bits.values<int64_t>())
    if (x < 0) fail("{}: got {}, expected integers of at most 2^63 - 1", name, static_cast<uint64_t>(x));
  return bits;
}

Tensor read_npy(const std::filesystem::path& path) {
  const auto file = map_file(path);
  return parse_npy(file->bytes(), file, path.string());
}

TensorSummary summarize_npy(std::span<const std::byte> prefix, uint64_t file_size, const std::string& name) {
  const NpyHeader header = read_header(prefix, file_size, name);
  return {.name = "",
          .dtype = fmt::format("{}{}", header.is_unsigned ? "u" : "", dtype_name(header.dtype)),
          .shape = header.shape,
          .byte_size = header.count * dtype_size(header.dtype)};
}

namespace {

Tensor stored_elements(const NpyHeader& header, std::span<std::byte> bytes,
                       const std::shared_ptr<const void>& owner, const std::string& name) {
  std::byte* data = bytes.data() + header.data_offset;
  const auto no_boolean = [](std::byte byte) { return byte > std::byte{1}; };
  if (header.dtype == DType::kBool && std::any_of(data, data + header.count, no_boolean)) {
    fail("{}: boolean data with bytes other than 0 and 1", name);
  }
  if (header.fortran_order) return from_fortran_order(data, header.dtype, header.shape);
  const bool aligned = reinterpret_cast<uintptr_t>(data) % dtype_size(header.dtype) == 0;
  if (aligned && header.count > 0) return Tensor::borrow(header.dtype, header.shape, data, owner);
  Tensor copy(header.dtype, header.shape);
  if (header.count > 0) std::memcpy(copy.bytes().data(), data, copy.byte_size());
  return copy;
}

}  // namespace

Tensor parse_npy(std::span<std::byte> bytes, const std::shared_ptr<const void>& owner,
                 const std::string& name) {
  const NpyHeader header = read_header(bytes, bytes.size(), name);
  Tensor elements = stored_elements(header, bytes, owner, name);
  if (header.is_big_endian) elements = in_other_order(elements);
  return header.is_unsigned ? unsigned_elements(elements, name) : elements;
}

NpyWriter::NpyWriter(const std::filesystem::path& path, DType dtype, const Shape& shape)
    : file_(path), left_(static_cast<uint64_t>(element_count(shape)) * dtype_size(dtype)) {
  const bool is_unknown =
      dtype == DType::kBFloat16 || dtype == DType::kFloat8E4M3 || dtype == DType::kFloat8E5M2;
  if (is_unknown) {
    fail("cannot write {}: NumPy has no {}, expected another dtype or a .safetensors file", path.string(),
         dtype_name(dtype));
  }
  std::string header = header_text(dtype, shape);
  const bool is_long = header.size() + kAlignment > 0xFFFF;
  const size_t prefix = kNpyMagic.size() + 2 + (is_long ? sizeof(uint32_t) : sizeof(uint16_t));
  header.resize((prefix + header.size() + 1 + kAlignment - 1) / kAlignment * kAlignment - prefix, ' ');
  header.back() = '\n';
  const std::array<uint32_t, 1> length = {static_cast<uint32_t>(header.size())};
  file_.write(kNpyMagic);
  file_.write(is_long ? std::string_view("\x02\x00", 2) : std::string_view("\x01\x00", 2));
  file_.write(std::as_bytes(std::span(length)).first(is_long ? sizeof(uint32_t) : sizeof(uint16_t)));
  file_.write(header);
}

void NpyWriter::append(const Tensor& elements) {
  DETENT_CHECK(elements.byte_size() <= left_, "{} bytes, {} are left", elements.byte_size(), left_);
  left_ -= elements.byte_size();
  file_.write(elements.bytes());
}

void NpyWriter::commit() {
  DETENT_CHECK(left_ == 0, "{} bytes are missing", left_);
  file_.commit();
}

void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  NpyWriter writer(path, tensor.dtype(), tensor.shape());
  writer.append(tensor);
  writer.commit();
}

}  // namespace detent
