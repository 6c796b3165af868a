# One list for every target of the project; errors only where DETENT_WERROR asks for it (CI).
add_library(detent_warnings INTERFACE)
target_compile_options(detent_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast
  -Wcast-align -Woverloaded-virtual
  $<$<CXX_COMPILER_ID:GNU>:-Wdouble-promotion>  # clang warns of constants too, which are promoted exactly
  -Wformat=2
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # GCC 12 warns of "x" + std::string (GCC bug 105651)
  # Of functions that return a part of one argument GCC 13 and later take another one, a temporary, for the owner; and
  # of a vector that is copied into a new tensor they get the size wrong.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-dangling-reference;-Wno-array-bounds;-Wno-stringop-overflow>
  $<$<BOOL:${DETENT_WERROR}>:-Werror>)
if(DETENT_SANITIZE)
  add_compile_options(-fsanitize=${DETENT_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${DETENT_SANITIZE})
endif()
