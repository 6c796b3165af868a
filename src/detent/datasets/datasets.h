#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/datasets/dataset.h"

namespace detent {

/// Photographs of ten kinds of things, 32x32 RGB, from the published binary files.
DatasetInfo cifar10_info();

/// The same, of a hundred kinds.
DatasetInfo cifar100_info();

/// The 8x8 handwritten digits that are built into the library.
DatasetInfo digits_info();

/// All 1,797 of them, in their order, whatever the split.
std::unique_ptr<Dataset> make_all_digits();

/// The user's own images: a folder a split with a folder a class with JPEG and PNG files.
DatasetInfo image_folder_info();

/// Handwritten digits, 28x28, from the published idx files.
DatasetInfo mnist_info();

/// Pictures of clothes in MNIST's format, from files of the same names.
DatasetInfo fashion_mnist_info();

/// Points of a cube, two classes by the sign of their sum: the data of the ternary statistics tutorial.
DatasetInfo toy_tiny_info();

// The user's own samples: a folder with files of the splits, whose shape and number of classes are what the
// files hold.

/// train.safetensors, ...: tensors "inputs" and "labels".
DatasetInfo safetensors_info();

/// train_inputs.npy and train_labels.npy, ...
DatasetInfo npy_info();

/// train.npz, ...: arrays "inputs" and "labels".
DatasetInfo npz_info();

/// One file of inputs without labels, which data_dir names: .npy, or the only tensor, or the one called
/// "inputs", of .npz or .safetensors; or a folder of such files, whose samples may have other sizes each.
/// Enough to calibrate with.
DatasetInfo unlabelled_info();
/// Name of the data set of random inputs.
inline constexpr const char* kRandomDataset = "random";
/// Inputs at random, as the network takes them: normal numbers, tokens of its vocabulary.
DatasetInfo random_info();
/// Files of inputs that a folder holds, sorted by name.
std::vector<std::filesystem::path> arrays_in(const std::filesystem::path& folder);

/// Name of a language model's tokens.
inline constexpr const char* kTokensName = "input_ids";
/// Defaults of the inputs beside them: a mask by which every token may be seen, and token types of one
/// sentence. None for other inputs.
std::optional<Tensor> beside_tokens(const std::string& name, const Tensor& tokens);

/// train.csv, ...: a sample a line, its label in the last column.
DatasetInfo csv_info();

}  // namespace detent
