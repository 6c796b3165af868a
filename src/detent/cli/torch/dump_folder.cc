#include "detent/cli/torch/dump_folder.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/core/value.h"
#include "detent/io/json.h"

namespace detent {
namespace {

/// The files that an index names; only such as a dump writes: `<name>.npy`, or that in `nodes`.
std::vector<std::filesystem::path> files_of(const Value& index, const std::filesystem::path& path) {
  std::vector<std::filesystem::path> files;
  const auto add = [&](const Value& entry) {
    const Table* table = entry.get_if<Table>();
    const Value* file = table == nullptr ? nullptr : table->find("file");
    const auto* name = file == nullptr ? nullptr : file->get_if<std::string>();
    if (name == nullptr) return;
    const std::filesystem::path relative(*name);
    const bool in_place = relative.parent_path().empty() || relative.parent_path() == "nodes";
    if (!in_place || relative.extension() != ".npy") {
      fail("{}: names the file \"{}\", which is none of a dump", path.string(), *name);
    }
    files.push_back(relative);
  };
  const Table* table = index.get_if<Table>();
  if (table == nullptr || !table->contains("logits")) fail("{}: not the index of a dump", path.string());
  for (const auto& [key, value] : *table) {
    if (const List* list = value.get_if<List>()) {
      std::ranges::for_each(*list, add);
    } else {
      add(value);
    }
  }
  return files;
}

}  // namespace

void claim_dump_folder(const std::filesystem::path& folder, bool overwrite) {
  namespace fs = std::filesystem;
  if (!fs::exists(folder)) return;
  if (!fs::is_directory(folder)) fail("--dump: {} is a file, expected a folder", folder.string());
  if (fs::is_empty(folder)) return;
  const fs::path index = folder / kDumpIndex;
  if (!fs::exists(index)) {
    fail("--dump: {} holds other files than a dump: expected a new or an empty folder", folder.string());
  }
  if (!overwrite) {
    fail("--dump: {} holds a dump already: --overwrite replaces it, or name another folder", folder.string());
  }
  const std::vector<fs::path> files = files_of(read_json(index), index);
  fs::remove(index);  // first: what is half removed is no dump
  for (const fs::path& file : files) fs::remove(folder / file);
}

}  // namespace detent
