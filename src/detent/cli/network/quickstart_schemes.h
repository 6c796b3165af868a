#pragma once

#include <span>
#include <string>

#include "detent/core/value.h"
#include "detent/graph/graph.h"

namespace detent {

/// One row of the quickstart's table: formats for the weights and for the inputs of every layer that has
/// weights.
struct QuickstartScheme {
  std::string name;  // also the name of its files
  std::string title;
  std::string weight;  // a spec in text form; fixed point gets the fraction bits that its range needs
  std::string data_in;
};

/// From 8 bits down, a row or two for each family of formats.
std::span<const QuickstartScheme> quickstart_schemes();

/// The statistics that scheme_config() reads, as the options of profile_statistics.
Table quickstart_profile_options(const Graph& graph);

/// The options of the quantize pass for a graph whose layers have been profiled: a table a layer.
Table scheme_config(const Graph& profiled, const QuickstartScheme& scheme);

}  // namespace detent
