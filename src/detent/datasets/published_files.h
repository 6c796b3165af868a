#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace detent {

/// A file as its authors publish it.
struct PublishedFile {
  std::string name;
  uint64_t size;       // bytes
  std::string digest;  // published MD5 or SHA-256, hexadecimal
};

/// A file that lies in a published archive.
struct ArchivedFile {
  std::string name;  // without the archive's folders
  uint64_t size;
};

struct PublishedDataset {
  std::string name;
  std::string folder;                // below the root of the data, where the data set looks for its files
  std::vector<std::string> mirrors;  // base addresses of the names, in the order to try them
  std::vector<PublishedFile> files;
  std::vector<ArchivedFile>
      archived;  // what of the one file, a .tar.gz, is kept; empty: files are no archives
};

/// Data sets that can be fetched.
std::span<const PublishedDataset> published_datasets();

/// By name or by an alias of the data set. Throws Error on another name, naming the nearest.
const PublishedDataset& published_dataset(std::string_view name);

}  // namespace detent
