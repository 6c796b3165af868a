#pragma once

namespace detent {

/// A digest of the sources, the compiler and the build type: the program and the half of it that it loads
/// must have the same, because they exchange C++ objects.
const char* build_identity();

}  // namespace detent
