#pragma once

#include "detent/datasets/dataset.h"

namespace detent {

// The user's own samples: a folder with files of the splits, whose shape and number of classes are what the
// files hold.

/// train.safetensors, ...: tensors "inputs" and "labels".
DatasetInfo safetensors_info();

/// train_inputs.npy and train_labels.npy, ...
DatasetInfo npy_info();

/// train.npz, ...: arrays "inputs" and "labels".
DatasetInfo npz_info();

/// One file of inputs without labels, which data_dir names: .npy, or the only tensor, or the one called
/// "inputs", of .npz or .safetensors. Enough to calibrate with.
DatasetInfo unlabelled_info();

/// train.csv, ...: a sample a line, its label in the last column.
DatasetInfo csv_info();

}  // namespace detent
