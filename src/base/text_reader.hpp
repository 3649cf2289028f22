// TextReader: a stream of text that tells when there is no memory.
#pragma once

#include <sstream>
#include <string>

namespace kolo {

/// Reading throws std::bad_alloc, which a std::istringstream takes for the end of the text: one rank would
/// then know less than its peers.
class TextReader : public std::istringstream {
 public:
  explicit TextReader(const std::string& text) : std::istringstream(text) { exceptions(badbit); }
};

}  // namespace kolo
