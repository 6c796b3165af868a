#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "detent/hardware/lut_netlist.h"
#include "detent/hardware/truth_table.h"

namespace detent {

/// One or two inputs of a function, and what it is of the others for each of their values.
struct ChoosingInputs {
  std::vector<int> by;
  std::vector<TruthTable> values;
  std::vector<TruthTable> cares;
  int64_t cost = 0;  // tables, in general
};

/// Makes 6-input tables of wider functions, into a netlist. A wide function is split, whichever takes fewer
/// tables,
///   - into functions of some inputs whose results, few, are all that the rest need know of these inputs
///     (R. L. Ashenhurst 1957; H. A. Curtis 1961), or
///   - by one or two inputs that choose among what is left (C. E. Shannon 1949).
class LutDecomposition {
 public:
  using Literal = LutNetlist::Literal;

  explicit LutDecomposition(LutNetlist& netlist) : netlist_(netlist) {}

  /// `value` wherever `care` holds; input k of the tables is literals[k]. Inputs that do not matter there are
  /// left out first.
  Literal function(TruthTable value, TruthTable care, std::vector<Literal> literals);

 private:
  Literal decomposed(const TruthTable& value, const TruthTable& care, const std::vector<Literal>& literals);
  Literal chosen(const ChoosingInputs& choice, const std::vector<Literal>& literals);

  LutNetlist& netlist_;
  std::map<std::tuple<TruthTable, TruthTable, std::vector<Literal>>, Literal> known_;  // value, care, inputs
};

}  // namespace detent
