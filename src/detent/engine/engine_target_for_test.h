#pragma once

#include <gtest/gtest.h>

#include "detent/core/parallel.h"
#include "detent/engine/kernels/kernel_set.h"

namespace detent {

/// A test that chooses engine targets and numbers of threads: they are what they were after it.
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
