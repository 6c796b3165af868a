#pragma once

#include <algorithm>
#include <cstdint>

#include "detent/engine/step.h"

namespace detent {

/// Calls `body(n, y)` for each row of a place, several rows at once on threads.
template <class Body>
void for_each_row(const Place& place, RunState& state, const Body& body) {
  constexpr int64_t kTaskBytes = 16 << 10;
  const int64_t rows = place.images() * place.height();
  const int64_t row_bytes = std::max<int64_t>(place.row() * place.element_bytes(), 1);
  const int64_t at_once = std::max<int64_t>(kTaskBytes / row_bytes, 1);
  ThreadPool::shared().run((rows + at_once - 1) / at_once, state.threads, [&](int64_t task) {
    const int64_t end = std::min(rows, (task + 1) * at_once);
    for (int64_t row = task * at_once; row < end; ++row) body(row / place.height(), row % place.height());
  });
}

/// Calls `body(at, element, count)` for positions that follow each other in a place and in the planes of its
/// value: where the first lies, and which element of the value is its channel 0.
template <class Body>
void for_each_line(const Place& place, RunState& state, const Body& body) {
  if (!place.halo.empty()) {
    for_each_row(place, state, [&](int64_t n, int64_t y) {
      body(place.at(n, y, 0), place.element(n, y, 0), place.width());
    });
    return;
  }
  constexpr int64_t kTaskBytes = 16 << 10;
  const int64_t plane = place.height() * place.width();
  const int64_t most = std::max<int64_t>(kTaskBytes / std::max<int64_t>(place.pitch(), 1), 16);
  const int64_t parts = (plane + most - 1) / most;
  ThreadPool::shared().run(place.images() * parts, state.threads, [&](int64_t task) {
    const int64_t n = task / parts;
    const int64_t first = task % parts * most;
    body(place.at(n, 0, 0) + first * place.pitch(), place.element(n, 0, 0) + first,
         std::min(most, plane - first));
  });
}

/// Calls `body(from, to, count)` for elements of row `y` of plane `n` that lie adjacent in both places.
template <class Body>
void for_each_run(const Place& in, const Place& out, int64_t n, int64_t y, const Body& body) {
  const int64_t from = in.at(n, y, 0);
  const int64_t to = out.at(n, y, 0);
  if (!in.is_slice() && !out.is_slice()) {
    body(from, to, out.width() * out.channels());
    return;
  }
  for (int64_t x = 0; x < out.width(); ++x) body(from + x * in.pitch(), to + x * out.pitch(), out.channels());
}

/// Whether a step that calls a function for each run takes a slice without losing what its copy would take.
inline bool has_long_runs(const Place& place) {
  constexpr int64_t kLongBytes = 64;
  return place.channels() * place.element_bytes() >= kLongBytes;
}

/// Calls `body(from, to, count)` for elements that lie adjacent in both places, which are of one layout; at
/// most some thousands of them, and a multiple of `together`, on threads.
template <class Body>
void for_each_chunk(const Place& in, const Place& out, RunState& state, int64_t together, const Body& body) {
  constexpr int64_t kChunk = 4096;
  const int64_t chunk = std::max<int64_t>(kChunk / together, 1) * together;
  if (out.has_positions()) {
    for_each_row(out, state, [&](int64_t n, int64_t y) {
      for_each_run(in, out, n, y, [&](int64_t from, int64_t to, int64_t count) {
        for (int64_t i = 0; i < count; i += chunk) body(from + i, to + i, std::min(chunk, count - i));
      });
    });
    return;
  }
  const int64_t count = out.elements();
  ThreadPool::shared().run((count + chunk - 1) / chunk, state.threads, [&](int64_t task) {
    body(task * chunk, task * chunk, std::min(chunk, count - task * chunk));
  });
}

}  // namespace detent
