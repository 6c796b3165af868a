#pragma once

#include <cstdint>

namespace detent {

/// While it lives, the calling thread rounds to nearest even, keeps subnormals and masks floating-point
/// exceptions, whatever the caller has set; then the caller's setting returns. Libraries flush subnormals
/// (FTZ, DAZ) at will.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment();
  ~DefaultFloatEnvironment();
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  uint64_t saved_;
};

}  // namespace detent
