#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "detent/core/error.h"

namespace detent {

/// Reserves a port of 127.0.0.1 (0: any) until this process ends; 0 if it is taken. A bound socket that never
/// listens holds it; others can listen there with SO_REUSEADDR.
inline int held_port_for_test(int port) {
  const int holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(holder, generic, size) != 0) return 0;
  const int yes = 1;
  // Before bind it would let the system reuse the port.
  const bool holds = getsockname(holder, generic, &size) == 0 &&
                     setsockopt(holder, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0;
  DETENT_CHECK(holds, "socket {}", holder);
  return ntohs(address.sin_port);
}

/// A reserved port; with `has_next` the next one too.
inline int reserved_port_for_test(bool has_next = false) {
  constexpr int kMostTries = 100;
  constexpr int kLastPort = 65535;
  for (int i = 0; i < kMostTries; ++i) {
    const int port = held_port_for_test(0);
    if (port != 0 && (!has_next || (port < kLastPort && held_port_for_test(port + 1) != 0))) return port;
  }
  fail("no free ports in {} tries", kMostTries);
}

}  // namespace detent
