#include <algorithm>

#include "detent/core/error.h"
#include "detent/datasets/dataset.h"
#include "detent/datasets/datasets.h"

namespace detent {

std::span<const DatasetInfo> all_datasets() {
  static const std::vector<DatasetInfo> kAll = {
      toy_tiny_info(),     digits_info(),      mnist_info(),  fashion_mnist_info(), cifar10_info(),
      cifar100_info(),     safetensors_info(), npy_info(),    npz_info(),           csv_info(),
      image_folder_info(), unlabelled_info(),  random_info(),
  };
  return kAll;
}

const DatasetInfo& dataset_info(std::string_view name) {
  std::vector<std::string> known;
  for (const DatasetInfo& info : all_datasets()) {
    if (info.name == name ||
        std::find(info.aliases.begin(), info.aliases.end(), name) != info.aliases.end()) {
      return info;
    }
    known.push_back(info.name);
  }
  throw Error(unknown_name_message("data set", name, known));
}

std::unique_ptr<Dataset> make_dataset(std::string_view name, Split split, const DatasetOptions& options) {
  const DatasetInfo& info = dataset_info(name);
  const Table transforms = write_changed_fields(options.transforms);
  if (!info.has_images && !transforms.empty()) {
    fail("{}: got {}, but the samples of the data set \"{}\" are no images", transforms.begin()->key,
         value_text(transforms.begin()->value), info.name);
  }
  return info.make(split, options);
}

}  // namespace detent
