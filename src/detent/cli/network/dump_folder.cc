#include "detent/cli/network/dump_folder.h"

#include "detent/core/error.h"
#include "detent/core/value.h"
#include "detent/files/file.h"
#include "detent/files/json.h"

namespace detent {
void check_dump_folder(const std::filesystem::path& folder, bool overwrite) {
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
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  const Value content = parse_json(read_file(index, kMostBytes, ReadAs::kOwnResult), index.string());
  const Table* table = content.get_if<Table>();
  if (table == nullptr || !table->contains("logits")) fail("{}: not the index of a dump", index.string());
}

}  // namespace detent
