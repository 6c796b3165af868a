#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "detent/onnx/importer.h"

// Functions of constants are computed one by one, each of the last; what may be known bounds those that are
// there at once.

namespace detent {

void OnnxImporter::end_reads(const onnx::NodeProto& node) {
  // A subgraph may read a value once in each of its calls.
  const bool has_graph =
      std::ranges::any_of(node.attribute(), [](const auto& attribute) { return attribute.has_g(); });
  if (!has_graph) {
    for (const std::string& input : node.input()) ++read_[input];
  }
  if (knowable_ >= drops_below_) return;
  drop_unread();
  // A look at all values follows much that was computed.
  constexpr int64_t kMuch = int64_t{4} << 20;
  drops_below_ = std::min(kDropsBelow, std::max(knowable_ - kMuch, knowable_ / 2));
}

void OnnxImporter::drop_unread() {
  std::set<const ImportedValue*> needed;
  for (const auto& [name, value] : outermost_.values) {
    const auto readers = readers_.find(name);
    const auto read = read_.find(name);
    const bool is_read_up =
        readers != readers_.end() && read != read_.end() && read->second >= readers->second;
    if (!is_read_up || value->sequence) needed.insert(value);
    if (value->sequence) needed.insert(value->sequence->begin(), value->sequence->end());
  }
  const auto is_kept = [&](const ImportedValue& value) {
    return value.is_initializer || !value.constant || needed.contains(&value);
  };
  std::set<std::string, std::less<>> live;
  for (const auto& value : values_) {
    if (is_kept(*value) && value->source && !value->source->is_constant()) live.insert(value->source->node);
  }
  remove_dead_nodes(std::move(live));
  for (const auto& value : values_) {
    if (is_kept(*value) || (value->source && graph_.find(value->source->node) != nullptr)) continue;
    knowable_ += static_cast<int64_t>(value->constant->byte_size());
    *value = {};
  }
}

}  // namespace detent
