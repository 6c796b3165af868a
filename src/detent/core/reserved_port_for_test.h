#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "detent/core/error.h"

namespace detent {

/// A port of 127.0.0.1 that the system gives to nobody else until this process ends. A socket that never
/// listens holds it, and lets those listen there that are told its number (with SO_REUSEADDR).
inline int reserved_port_for_test() {
  const int holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const int yes = 1;
  // Set before bind, it would have the system give others the same port.
  const bool holds = bind(holder, generic, size) == 0 && getsockname(holder, generic, &size) == 0 &&
                     setsockopt(holder, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0;
  DETENT_CHECK(holds, "socket {}", holder);
  return ntohs(address.sin_port);
}

}  // namespace detent
