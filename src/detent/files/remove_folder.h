#pragma once

namespace detent {

/// Removes what is in a folder, and it. For signal handlers: allocates no memory, and gives up where it
/// cannot go on, with what is left there left.
void remove_folder_in_handler(const char* path);

}  // namespace detent
