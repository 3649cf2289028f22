// Table: the human-readable result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/machine.hpp"
#include "bench/neighbours.hpp"
#include "bench/row.hpp"
#include "text/columns.hpp"

namespace kolo::bench {

/// The lines above the rows.
struct Heading {
  std::string version;
  Machine machine;
  std::string transport;
  std::string memory;
  Case what;
  std::vector<std::string> peers;  ///< their names, one pair of columns each
  Neighbourhood neighbours = {};
  bool wide = false;  ///< show all columns, also beyond the width of a terminal
};

/// Formats lines, each with its newline. Without peers the columns are those of nccl-tests. With peers there
/// are fewer columns for kolo, and for each peer its time and the ratio to kolo's time. Lines fit a terminal,
/// unless the heading is wide.
class Table {
 public:
  explicit Table(Heading heading);

  std::string heading() const;
  /// `rewrite` is for the same size; `peers` are in the heading's order, nullopt for a peer without a result.
  std::string row(const Row& kolo, const std::optional<Row>& rewrite,
                  const std::vector<std::optional<Row>>& peers) const;
  /// A row with a wire format, beside the row without it. link_mbit: bandwidth of one rank's link; 0:
  /// unknown.
  std::string rounded_row(const Row& kolo, const Row& native, double link_mbit) const;
  /// rewrite_gbps: bandwidth of all ranks' rewriting at the largest size; 0: not measured.
  std::string footer(std::uint64_t wrong, double rewrite_gbps, std::uint64_t rewrite_bytes) const;

 private:
  Heading heading_;
  cli::TableLayout layout_;
};

/// About four significant digits: 0.31, 12.5, 1234.
std::string format_us(double microseconds);

}  // namespace kolo::bench
