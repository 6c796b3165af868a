#include "detent/graph/node_names.h"

#include <gtest/gtest.h>

namespace detent {
namespace {

TEST(NodeMessage, NamesANodeOnce) {
  Node node;
  node.name = "fc";
  node.op = "linear";
  EXPECT_EQ(node_message(node, "got 3 inputs"), "node \"fc\" (linear): got 3 inputs");
  EXPECT_EQ(node_message(node, node_message(node, "got 3 inputs")), "node \"fc\" (linear): got 3 inputs");
  EXPECT_EQ(node_message(node, "node \"fc\": got 3 inputs"), "node \"fc\": got 3 inputs");
  EXPECT_EQ(node_message(node, "node \"fc2\" (add): x"), "node \"fc\" (linear): node \"fc2\" (add): x");
}

TEST(NodeMessage, TellsTheReasonApart) {
  EXPECT_EQ(reason_of("node \"fc\" (linear): got: 3"), "got: 3");
  EXPECT_EQ(reason_of("node \"fc\": got (3): 4"), "got (3): 4");
  for (const char* whole : {"got 3", "node \"fc", "node \"fc\"", "node \"fc\" (", "node \"fc\" (a)", "",
                            "node \"fc\", operand \"weight\": x"})
    EXPECT_EQ(reason_of(whole), whole);
}

}  // namespace
}  // namespace detent
