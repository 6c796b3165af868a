#include "detent/graph_files/packed_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "detent/core/fields.h"
#include "detent/files/json.h"
#include "detent/formats/groups/given_parameters.h"

namespace detent {
namespace {

constexpr std::string_view kKeyPrefix = "detent.packed.";

/// Metadata of a packed tensor.
struct Description {
  std::string format;
  std::vector<int64_t> shape;
  Packing packing = Packing::kBits;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("format", self.format, "the quantization, as text");
    visit("shape", self.shape, "of the tensor");
    visit("packing", self.packing, "how integers become bytes");
  }
};

std::string stream_name(const std::string& tensor, const std::string& stream) {
  return tensor + "." + stream;
}

/// The dtype of a file that has these codes for its elements.
std::optional<DType> dtype_of_codes(const QuantSpec& spec, Packing packing) {
  return packing == Packing::kBits ? element_dtype(spec.format) : std::nullopt;
}

/// The tensors of the file that hold its streams, in their order.
std::vector<TensorEntry> stream_entries(const std::string& name, const QuantSpec& spec, const Shape& shape,
                                        Packing packing) {
  std::vector<TensorEntry> entries;
  for (const StreamLayout& stream : encoded_layout(spec, shape, packing))
    entries.push_back({stream_name(name, stream.name), stream.dtype, stream.shape});
  if (const auto dtype = dtype_of_codes(spec, packing)) entries.front() = {name, *dtype, shape};
  return entries;
}

/// The same bytes.
Tensor viewed_as(Tensor tensor, DType dtype, const Shape& shape) {
  return Tensor::borrow(dtype, shape, tensor.bytes().data(), tensor.owner());
}

Description read_description(const std::string& text, const std::string& where) {
  const Value value = parse_json(text, where);
  const Table* table = value.get_if<Table>();
  if (table == nullptr || table->size() != field_names<Description>().size()) {
    fail("{}: got {}, expected an object with format, shape and packing", where, text);
  }
  Description description;
  read_fields(description, *table, where);
  const auto negative = [](int64_t size) { return size < 0; };
  if (std::ranges::any_of(description.shape, negative)) {
    fail("{}: key \"shape\": got {}, expected sizes", where, shape_text(description.shape));
  }
  return description;
}

/// `names`: of the tensors that hold its streams.
Encoded read_encoded(const std::string& name, const Description& description,
                     const std::map<std::string, Tensor>& tensors, const std::string& where,
                     std::vector<std::string>& names) {
  Encoded encoded{QuantSpec(), description.shape, description.packing, {}};
  std::vector<StreamLayout> layout;
  try {
    encoded.spec = parse_quant_spec_text(description.format);
    layout = encoded_layout(encoded.spec, encoded.shape, encoded.packing);
  } catch (const Error& error) {
    fail("{}: {}", where, error.what());
  }
  std::vector<TensorEntry> entries = stream_entries(name, encoded.spec, encoded.shape, encoded.packing);
  const TensorEntry bytes = {stream_name(name, layout[0].name), layout[0].dtype, layout[0].shape};
  if (tensors.contains(bytes.name)) entries[0] = bytes;  // as older files have them
  for (size_t i = 0; i < layout.size(); ++i) {
    const TensorEntry& entry = entries[i];
    const auto found = tensors.find(entry.name);
    if (found == tensors.end()) fail("{}: the file has no tensor \"{}\"", where, entry.name);
    const Tensor& data = found->second;
    if (data.dtype() != entry.dtype || data.shape() != entry.shape) {
      fail("{}: tensor \"{}\" is {} of shape {}, expected {} of shape {}", where, entry.name,
           dtype_name(data.dtype()), shape_text(data.shape()), dtype_name(entry.dtype),
           shape_text(entry.shape));
    }
    names.push_back(entry.name);
    encoded.streams.push_back({layout[i].name, viewed_as(data, layout[i].dtype, layout[i].shape)});
  }
  return encoded;
}

std::string description_text(const QuantSpec& spec, const Shape& shape, Packing packing) {
  const Table table{
      {"format", quant_spec_text(spec)}, {"shape", Value(shape)}, {"packing", enum_name(packing)}};
  return json_text(table, JsonLayout::kOneLine, InvalidText::kIsRefused);
}

Encoded encode_entry(const PackedEntry& entry, const Tensor& values, const Scratch& scratch) {
  try {
    validate(*entry.spec, "encode");
    Encoded encoded{*entry.spec, values.shape(), entry.packing, {}};
    for (const StreamLayout& stream : encoded_layout(*entry.spec, values.shape(), entry.packing))
      encoded.streams.push_back({stream.name, scratch.tensor(stream.dtype, stream.shape)});
    encode(*entry.spec, values, encoded);
    return encoded;
  } catch (const Error& error) {
    fail("tensor \"{}\": {}", entry.name, error.what());
  }
}

/// Where a tensor of the written file comes from.
struct Source {
  size_t entry;
  size_t stream;  // of a packed entry
};

}  // namespace

Tensor stored_values(const StoredTensor& tensor, const Scratch& scratch) {
  for (const StoredTensor::Part& part : tensor.unchecked)
    check_tensor(part.tensor, part.checksum, part.file, part.name);
  if (const auto* plain = std::get_if<Tensor>(&tensor.content)) return *plain;
  if (const auto* stored = std::get_if<GgufTensor>(&tensor.content)) {
    if (holds_plain_numbers(*stored->format)) return gguf_elements(*stored);
    Tensor values = scratch.tensor(DType::kFloat32, stored->shape);
    decode_gguf(*stored, values.values<float>());
    return values;
  }
  const auto* encoded = &std::get<Encoded>(tensor.content);
  try {
    Tensor values = scratch.tensor(DType::kFloat32, encoded->shape);
    decode(*encoded, values);
    return values;
  } catch (const Error& error) {
    fail("tensor \"{}\": {}", tensor.name, error.what());
  }
}

std::vector<StoredTensor> unpack_tensors(const SafetensorsFile& file, const std::string& where) {
  const std::map<std::string, Tensor> tensors(file.tensors.begin(), file.tensors.end());
  std::map<std::string, Encoded> packed;       // by the name of their codes
  std::map<std::string, std::string> streams;  // to the packed tensor that each belongs to
  std::map<std::string, std::string> names;
  for (const auto& [key, text] : file.metadata) {
    if (!key.starts_with(kKeyPrefix)) continue;
    const std::string name = key.substr(kKeyPrefix.size());
    const std::string of_tensor = fmt::format("{}: metadata of the packed tensor \"{}\"", where, name);
    std::vector<std::string> parts;
    Encoded encoded = read_encoded(name, read_description(text, of_tensor), tensors, of_tensor, parts);
    for (const std::string& part : parts) {
      if (!streams.emplace(part, name).second) {
        fail("{}: tensor \"{}\" belongs to two packed tensors", of_tensor, part);
      }
    }
    names[parts.front()] = name;
    packed.emplace(parts.front(), std::move(encoded));
  }
  std::vector<StoredTensor> result;
  std::set<std::string> taken;
  for (const auto& [name, tensor] : file.tensors) {
    const auto found = packed.find(name);
    if (found != packed.end()) {
      result.push_back({names.at(name), std::move(found->second)});
    } else if (!streams.contains(name)) {
      result.push_back({name, tensor});
    } else {
      continue;
    }
    if (!taken.insert(result.back().name).second) {
      fail("{}: the tensor \"{}\" is there both packed and as it is", where, result.back().name);
    }
  }
  std::map<std::string, std::vector<StoredTensor::Part>> parts;
  for (size_t i = 0; i < file.checksums.size(); ++i) {
    const auto& [name, tensor] = file.tensors.at(i);
    const auto owner = streams.find(name);
    parts[owner == streams.end() ? name : owner->second].push_back({where, name, tensor, file.checksums[i]});
  }
  for (StoredTensor& tensor : result) tensor.unchecked = std::move(parts[tensor.name]);
  return result;
}

void add_packed(const std::string& name, const Encoded& encoded,
                std::vector<std::pair<std::string, Tensor>>& tensors,
                std::map<std::string, std::string>& metadata) {
  metadata[std::string(kKeyPrefix) + name] = description_text(encoded.spec, encoded.shape, encoded.packing);
  const std::vector<TensorEntry> entries = stream_entries(name, encoded.spec, encoded.shape, encoded.packing);
  for (size_t i = 0; i < entries.size(); ++i) {
    tensors.emplace_back(entries[i].name,
                         viewed_as(encoded.streams[i].data, entries[i].dtype, entries[i].shape));
  }
}

std::map<std::string, std::string> plain_metadata(const SafetensorsFile& file) {
  std::map<std::string, std::string> metadata = file.metadata;
  std::erase_if(metadata, [](const auto& entry) { return entry.first.starts_with(kKeyPrefix); });
  return metadata;
}

void write_packed_tensors(const std::filesystem::path& path, const std::vector<PackedEntry>& entries,
                          const std::map<std::string, std::string>& metadata,
                          const std::function<Tensor(size_t)>& load, const Scratch& scratch) {
  std::map<std::string, std::string> all_metadata = metadata;
  std::vector<TensorEntry> written;
  std::vector<Source> sources;
  for (size_t i = 0; i < entries.size(); ++i) {
    const PackedEntry& entry = entries[i];
    if (!entry.spec) {
      written.push_back({entry.name, entry.dtype, entry.shape});
      sources.push_back({i, 0});
      continue;
    }
    all_metadata[std::string(kKeyPrefix) + entry.name] =
        description_text(*entry.spec, entry.shape, entry.packing);
    const std::vector<TensorEntry> streams =
        stream_entries(entry.name, *entry.spec, entry.shape, entry.packing);
    for (size_t s = 0; s < streams.size(); ++s) {
      written.push_back(streams[s]);
      sources.push_back({i, s});
    }
  }
  SafetensorsWriter writer(path, written, all_metadata);
  Encoded encoded;
  size_t encoded_entry = std::numeric_limits<size_t>::max();
  for (const size_t position : writer.order()) {
    const auto [i, stream] = sources[position];
    if (!entries[i].spec) {
      writer.write(load(i));
      continue;
    }
    if (encoded_entry != i) {
      encoded = Encoded();
      encoded = encode_entry(entries[i], load(i), scratch);
      encoded_entry = i;
    }
    writer.write(viewed_as(encoded.streams[stream].data, written[position].dtype, written[position].shape));
  }
  writer.commit();
}

}  // namespace detent
