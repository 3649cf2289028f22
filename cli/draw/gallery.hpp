// Gallery: the pages of all algorithms, a front page, and a page that shows two of them side by side.
#pragma once

#include <string>
#include <vector>

namespace kolo::draw {

struct File {
  std::string name;
  std::string text;
};

/// The files of a folder. Each page is complete in itself and needs no network; the front page is index.html.
/// `sizes`: numbers of ranks, from 1 to kMostRanks, in ascending order; not empty. An algorithm has no page
/// for a size that it cannot serve.
std::vector<File> gallery_of(const std::vector<int>& sizes);

}  // namespace kolo::draw
