#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/fields.h"
#include "detent/core/tensor.h"
#include "detent/core/value.h"

namespace detent {

/// A statistic of all values that passed one place of a network. The result is a fact about the values: it
/// does not depend on how they were cut into batches, on their order, on threads, or on which collectors were
/// merged.
///
/// NaN has no part in a statistic and infinities do; both are counted, and a result that met any has the
/// extra keys `nan_count` and `infinity_count`.
class Collector {
 public:
  Collector() = default;
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;
  virtual ~Collector() = default;

  /// Name in the registry.
  virtual std::string_view name() const = 0;
  /// Takes float32 values of shape [samples, ...]; rank 0 is one sample. Throws Error on another dtype, and,
  /// unless all dimensions are reduced, on samples that differ in shape.
  virtual void update(const Tensor& sample_batch) = 0;
  /// As if everything that `other` saw had been passed to this one. `other` is another collector of the same
  /// name and options.
  virtual void merge(const Collector& other) = 0;
  /// Names and values in a fixed order; a value is a number, or nested lists of the shape that is kept.
  /// Throws Error when no value, or for a kept position nothing but NaN, was seen.
  virtual Table result() const = 0;
};

/// What a collector is, for help and documentation.
struct CollectorDescription {
  std::string name;
  std::string help;
  std::vector<FieldDescription> options;
};

/// Every collector there is.
std::vector<CollectorDescription> describe_collectors();

/// Throws Error, beginning with `where`, on an unknown name (with the nearest known one) and on options that
/// are unknown, of the wrong type or out of range.
std::unique_ptr<Collector> make_collector(std::string_view name, const Table& options,
                                          const std::string& where);

}  // namespace detent
