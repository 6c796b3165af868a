#pragma once

#include <string>

#include "detent/formats/format.h"
#include "detent/statistics/distribution.h"

namespace detent {

/// The range `full` held to magnitudes up to i/128 of its largest one, i = 1 .. 128, for which quantizing
/// loses least information (Migacz 2017, "8-bit Inference with TensorRT"): the smallest Kullback-Leibler
/// divergence D(P || Q) over 2048 equal bins of `full` widened to hold 0. P are the values, those beyond the
/// range moved into its outermost bins; Q are the values within the range, each level's share spread evenly
/// over its bins that are not empty. Here levels are what the format makes of the bins' centres, so that they
/// need not be equally wide, and Q is mixed with 1e-4 of the uniform distribution, so that bins which only
/// the moved values fill have a finite cost. Zeros have no part in it: formats hold them exactly, and the
/// many that a ReLU gives would outweigh all else (TensorRT leaves them out as well). Of equal divergences,
/// the wider range. Values that repeat often elsewhere (the background of images) remain a weakness of the
/// method: it may place an end of the range on them.
Interval least_divergence_range(const Format& format, const Distribution& distribution, const Interval& full,
                                ScaleForm form, const std::string& where);

}  // namespace detent
