// The layers of a nested butterfly: who exchanges with whom.
#pragma once

#include <string>
#include <vector>

namespace kolo::sparse {

/// A rank's place in one layer. Ranks are numbers whose digits have the degrees as bases, the first layer's
/// the lowest; a group is the ranks that differ in the layer's digit alone. So the first layer, which moves
/// most, joins neighbours.
struct Place {
  int digit;        ///< this rank's number in its group
  int first_in_it;  ///< the group's lowest rank, which names it
};

/// As large as divides what is left, up to 8, the largest first; a prime above 8 stays whole.
std::vector<int> default_degrees(int ranks);

/// What is wrong with these degrees for so many ranks; empty: nothing.
std::string degrees_fault(const std::vector<int>& degrees, int ranks);

/// Of `rank` in every layer.
std::vector<Place> places(int rank, const std::vector<int>& degrees);

}  // namespace kolo::sparse
