#include "detent/datasets/data_files.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/datasets/dataset.h"

namespace detent {
namespace {

// Digests: of MNIST those of TensorFlow Datasets' checksums, of Fashion-MNIST those of its README, of CIFAR
// those of https://www.cs.toronto.edu/~kriz/cifar.html.
std::vector<PublishedDataset> all() {
  return {
      {.name = "mnist",
       .folder = "mnist",
       .mirrors = {"https://ossci-datasets.s3.amazonaws.com/mnist/",
                   "https://storage.googleapis.com/cvdf-datasets/mnist/"},
       .files = {{"train-images-idx3-ubyte.gz", 9912422,
                  "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
                 {"train-labels-idx1-ubyte.gz", 28881,
                  "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
                 {"t10k-images-idx3-ubyte.gz", 1648877,
                  "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
                 {"t10k-labels-idx1-ubyte.gz", 4542,
                  "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}},
       .archived = {}},
      {.name = "fashion_mnist",
       .folder = "fashion_mnist",
       .mirrors = {"https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
                   "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"},
       .files = {{"train-images-idx3-ubyte.gz", 26421880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"},
                 {"train-labels-idx1-ubyte.gz", 29515, "25c81989df183df01b3e8a0aad5dffbe"},
                 {"t10k-images-idx3-ubyte.gz", 4422102, "bef4ecab320f06d8554ea6380940ec79"},
                 {"t10k-labels-idx1-ubyte.gz", 5148, "bb300cfdad3c16e7a12a480ee83cd310"}},
       .archived = {}},
      {.name = "cifar10",
       .folder = "cifar10",
       .mirrors = {"https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/"},
       .files = {{"cifar-10-binary.tar.gz", 170052171, "c32a1d4ab5d03f1284b67883e8d87530"}},
       .archived = {{"data_batch_1.bin", 30730000},
                    {"data_batch_2.bin", 30730000},
                    {"data_batch_3.bin", 30730000},
                    {"data_batch_4.bin", 30730000},
                    {"data_batch_5.bin", 30730000},
                    {"test_batch.bin", 30730000}}},
      {.name = "cifar100",
       .folder = "cifar100",
       .mirrors = {"https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/"},
       .files = {{"cifar-100-binary.tar.gz", 168513733, "03b5dce01913d631647c71ecec9e9cb8"}},
       .archived = {{"train.bin", 153700000}, {"test.bin", 30740000}}},
  };
}

}  // namespace

std::span<const PublishedDataset> published_datasets() {
  static const std::vector<PublishedDataset> kAll = all();
  return kAll;
}

const PublishedDataset& published_dataset(std::string_view name) {
  std::vector<std::string> known;
  for (const PublishedDataset& published : published_datasets()) {
    const std::vector<std::string>& aliases = dataset_info(published.name).aliases;
    if (published.name == name || std::ranges::find(aliases, name) != aliases.end()) return published;
    known.push_back(published.name);
  }
  throw Error(unknown_name_message("data set to fetch", name, known));
}

}  // namespace detent
