#pragma once

#include <gtest/gtest.h>

#include "detent/core/parallel.h"
#include "detent/engine/kernels/kernel_set.h"

namespace detent {

/// A test that changes engine targets and thread counts, and restores them.
class EngineTargetTest : public testing::Test {
 protected:
  void TearDown() override {
    set_engine_target("");
    set_thread_count(threads_);
  }

 private:
  int threads_ = thread_count();
};

}  // namespace detent
