#pragma once

#include <ATen/Parallel.h>
#include <omp.h>

namespace detent {

/// Makes libtorch, and the libraries beneath it, use the calling thread alone as long as it lives.
class OneThread {
 public:
  // libtorch sets the number for a thread that first asks for it, and must have done so before.
  OneThread() : before_(at::get_num_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace detent
