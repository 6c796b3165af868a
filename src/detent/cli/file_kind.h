#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "detent/core/value.h"
#include "detent/files/array_files.h"
#include "detent/graph/graph.h"
#include "detent/graph/graph_parameters.h"

namespace detent {

/// Contents of a file.
struct FileInfo {
  std::string kind;  // "graph", "safetensors", "PyTorch checkpoint", ...
  std::vector<TensorSummary> tensors;
  Table facts;  // further lines, by name
  std::optional<Graph> graph = {};
};

// Each describes files of one kind. Headers, directories and pickles are read only: the elements of tensors
// stay on the disk, except boolean ones of graphs and of files with packed tensors. Throw Error naming the
// file when it is damaged.

/// A network, where these are the shapes of its inputs; without, as it leaves them open.
FileInfo graph_info(const std::filesystem::path& path, const InputShapes& shapes);
FileInfo safetensors_info(const std::filesystem::path& path, const InputShapes& shapes);
FileInfo npy_info(const std::filesystem::path& path, const InputShapes& shapes);
FileInfo npz_info(const std::filesystem::path& path, const InputShapes& shapes);
FileInfo gguf_info(const std::filesystem::path& path, const InputShapes& shapes);
FileInfo checkpoint_info(const std::filesystem::path& path, const InputShapes& shapes);
/// As the graph that the model becomes.
FileInfo onnx_info(const std::filesystem::path& path, const InputShapes& shapes);
/// The folder of a config.json.
FileInfo language_info(const std::filesystem::path& path, const InputShapes& shapes);

using GraphReader = Graph (*)(const std::filesystem::path&);
using StateDictReader = StateDict (*)(const std::filesystem::path&);

/// A kind of files that hold tensors: a line of the table in file_kind.cc, which the option load_type, the
/// loading of networks and `detent info` derive from.
struct FileKind {
  const char* load_type;  // what the option calls it; nullptr: networks are not loaded from it
  const char* text;       // "a graph"; kinds of one text are so alike that a user may insist on either
  const char* expected;   // "a graph (.mz)", where another kind was found
  /// `bytes` are the file's.
  bool (*recognises)(const std::filesystem::path& path, std::span<const std::byte> bytes);
  FileInfo (*info)(const std::filesystem::path& path, const InputShapes& shapes);
  std::variant<std::monostate, GraphReader, StateDictReader> read = {};

  bool holds_graph() const { return std::holds_alternative<GraphReader>(read); }
  bool operator==(const FileKind& other) const { return this == &other; }
};

/// By the file's content, whatever its name is: by its first bytes and, of safetensors and of checkpoints, by
/// the header or the pickle. Throws Error on a file of none of the kinds, and where these are damaged.
const FileKind& file_kind(const std::filesystem::path& path);

/// Kinds of graphs that Detent has written, and of ONNX models.
const FileKind& graph_kind();
const FileKind& onnx_kind();

/// "a graph (.mz), an ONNX model, a checkpoint of PyTorch (.pt, .th, .ckpt), .safetensors, the folder of a
/// language model (config.json), .npy or .npz"
std::string file_kinds_text();

/// The option load_type: a kind that networks are loaded from.
class LoadType {
 public:
  LoadType();
  explicit LoadType(const FileKind& kind) : kind_(&kind) {}

  const FileKind& kind() const { return *kind_; }

  static std::string field_type();
  Value to_value() const { return Value(std::string(kind_->load_type)); }
  static LoadType from_value(const Value& value, const std::string& where);

 private:
  const FileKind* kind_;
};

}  // namespace detent
