// The layers of a nested butterfly: which ranks exchange with each other.
#pragma once

#include <string>
#include <vector>

namespace kolo::comm::sparse {

/// A rank's place in one layer. A rank is a number whose digits have the degrees as bases; the lowest digit
/// is the first layer's. A group is the ranks that differ only in the layer's digit. So the groups of the
/// first layer, which moves most, are neighbouring ranks.
struct Place {
  int digit;        ///< this rank's number in its group
  int first_in_it;  ///< the group's lowest rank, which names it
};

/// Each degree is the largest divisor, up to 8, of the ranks that are left. The largest degree comes first.
/// What has no such divisor is one degree.
std::vector<int> default_degrees(int ranks);

/// What is wrong with these degrees for so many ranks; empty: nothing.
std::string degrees_fault(const std::vector<int>& degrees, int ranks);

/// The place of `rank` in every layer.
std::vector<Place> places(int rank, const std::vector<int>& degrees);

}  // namespace kolo::comm::sparse
