// A text in two parts: one to train on, and one that tells how well a model knows what it has not seen.
#pragma once

#include <string>

namespace support {

/// Where Debian's dict-wn puts WordNet, a dictionary of English.
inline constexpr const char* kDictionary = "/usr/share/dictd/wn.dict.dz";

struct Corpus {
  std::string training;
  std::string held_out;
};

/// Reads a text file, which may be compressed by gzip. The last megabyte (or the last tenth of a short text)
/// is held out, from an entry's begin on. An entry is a line that does not begin with a space, and the
/// indented lines after it, which hold definitions: "n 1: ...". A dictionary repeats a definition under each
/// of its words, so entries are dropped from the held-out part if one of their definitions stands in the
/// training part.
///
/// Throws std::runtime_error that names a file which is missing, empty, cut short, or too short to learn
/// from.
Corpus read_corpus(const std::string& path);

}  // namespace support
