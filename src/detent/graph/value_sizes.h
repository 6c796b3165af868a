#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/graph/graph.h"

namespace detent {

/// Named dimensions of a graph's inputs with their usual sizes.
NamedSizes usual_sizes(const Graph& graph);

/// The same with batches of so many samples: the first size of every input that is usually 1, where the
/// network takes that, or that of the samples alone. Exporters may name the batch of each input on its own.
NamedSizes with_batch(const Graph& graph, const NamedSizes& sizes, int64_t batch);

/// The sizes that inputs, in the graph's order, give the named dimensions.
NamedSizes sizes_of(const Graph& graph, std::span<const Tensor> inputs);

/// Other sizes, batch apart, that the network takes as well: multiples of the usual ones where it does, else
/// some near them; the usual ones where it takes none of these.
NamedSizes other_sizes(const Graph& graph);

/// Sizes of values as numbers and formulas of the named dimensions: "64", "floor(h/4)", "3*(t - 2)". Formulas
/// are found by inferring shapes for sizes around and far from the usual ones, and hold for all of these; "?"
/// where no formula of this kind does, or where only a run knows the size.
std::vector<std::vector<std::string>> open_shapes(const Graph& graph, std::span<const NodeInput> values);

/// "[N, 64, floor(h/4)]"
std::string open_shape_text(std::span<const std::string> sizes);

/// Most bytes that the inputs and results of one node should take, where samples are to run several at once:
/// about what the processor's caches hold, with parameters that are used for some samples each time that they
/// are fetched.
constexpr int64_t kActivationBytes = int64_t{8} << 20;

/// Samples per run fixed by the graph's inputs, if any: one if no first size is a batch.
std::optional<int64_t> fixed_samples(const Graph& graph);

/// How many samples may run at once where no node's inputs and results together are to take more than
/// `bytes`: at least 1, fixed_samples where there are, and one where only a run knows the sizes of values.
/// `sizes` of the named dimensions, batch apart, where they are not the usual ones.
int64_t samples_within(const Graph& graph, int64_t bytes, NamedSizes sizes = {});

}  // namespace detent
