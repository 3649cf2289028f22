// Table: what a person reads, at most 110 columns wide.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/machine.hpp"
#include "bench/row.hpp"

namespace kolo::bench {

/// What stands above the rows: the same for all of them.
struct Heading {
  std::string version;
  Machine machine;
  std::string transport;
  std::string memory;
  Case what;
  std::vector<std::string> peers;  ///< their names, one pair of columns each
};

/// Formats lines, each with its newline. Without peers the columns are those of nccl-tests; with peers there
/// is less of kolo, and of each peer its time and how many times as long as kolo it took.
class Table {
 public:
  explicit Table(Heading heading) : heading_(std::move(heading)) {}

  std::string heading() const;
  /// `rewrite` is of the same size; `peers` in the heading's order, nothing where one has no result.
  std::string row(const Row& kolo, const std::optional<Row>& rewrite,
                  const std::vector<std::optional<Row>>& peers) const;
  /// A row where there is a wire format, beside the same without. link_mbit: what one rank's link gives; 0:
  /// no bound is known.
  std::string rounded_row(const Row& kolo, const Row& native, double link_mbit) const;
  /// rewrite_gbps: what all ranks' rewriting loaded and stored together at the largest size; 0: nothing.
  std::string footer(std::uint64_t wrong, double rewrite_gbps, std::uint64_t rewrite_bytes) const;

 private:
  Heading heading_;
};

/// About four significant digits: 0.31, 12.5, 1234.
std::string format_us(double microseconds);

}  // namespace kolo::bench
