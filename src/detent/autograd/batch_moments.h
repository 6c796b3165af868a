#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

namespace detent {

/// Gathers all workers' samples of a batch, in order, from this one's.
using GatherSamples = std::function<at::Tensor(const at::Tensor&)>;

/// The mean and the variance (divided by `count`) of the values of each channel, and how many they are.
struct BatchMoments {
  at::Tensor mean;      // [channels]
  at::Tensor variance;  // [channels]
  double count = 0;
};

/// The moments of `values` [samples, channels, ...], differentiably; with `gather`, of the samples of all
/// workers, which each have at least one and make the same calls, those of the gradients included: as SyncBN
/// (Peng et al. 2018, arXiv:1711.07240, section 3.2).
BatchMoments batch_moments(const at::Tensor& values, const GatherSamples* gather);

/// Moves running statistics towards the moments, of which the variance becomes the unbiased one; those that
/// are undefined stay so.
void move_running_statistics(const at::Tensor& running_mean, const at::Tensor& running_variance,
                             const BatchMoments& moments, double momentum);

/// A view of `channels` [channels] to combine with `like`, whose dimension `dim` is that of the channels.
at::Tensor along_channels(const at::Tensor& channels, const at::Tensor& like, int64_t dim = 1);

}  // namespace detent
